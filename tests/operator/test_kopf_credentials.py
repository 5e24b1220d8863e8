"""kopf comes in with our own client's credentials, as a pod and as a person."""

from __future__ import annotations

import pytest
from kubernetes import client

from biclique_operator.handlers import credentials


@pytest.mark.parametrize("said", ["bearer secret", "Bearer secret"])
def test_a_token_goes_without_the_word_before_it(said: str) -> None:
    settings = client.Configuration(host="https://10.96.0.1", api_key={"BearerToken": said})
    assert credentials(client.ApiClient(settings)).token == "secret"


def test_a_certificate_is_enough() -> None:
    settings = client.Configuration(host="https://10.96.0.1")
    settings.cert_file, settings.key_file = "admin.crt", "admin.key"
    found = credentials(client.ApiClient(settings))
    assert (found.token, found.certificate_path, found.private_key_path) == (None, "admin.crt", "admin.key")
