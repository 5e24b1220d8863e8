"""What the chart tells of private registries reaches every pod of a query, by its two accounts."""

from __future__ import annotations

from biclique_operator.desired.accounts import accounts
from biclique_operator.desired.names import QueryName
from biclique_operator.settings import settings_of

QUERY = QueryName("pairs", "joins", "0" * 36)


def test_both_accounts_have_the_secrets_that_were_named() -> None:
    images = settings_of({"BICLIQUE_IMAGE_PULL_SECRETS": "a,b"}, None, "0").installation.images
    made = accounts(QUERY, images.pull_secrets)
    assert [each["imagePullSecrets"] for each in made] == [[{"name": "a"}, {"name": "b"}]] * 2
    assert [each["automountServiceAccountToken"] for each in made] == [True, False]


def test_without_any_the_accounts_name_none() -> None:
    assert settings_of({}, None, "0").installation.images.pull_secrets == ()
    assert all("imagePullSecrets" not in each for each in accounts(QUERY))
