"""What the chart tells of private registries reaches every pod of a query: drivers, and executors by their template.
It is no part of the accounts, whose list of Secrets a cluster may fill itself."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from biclique_operator.checked import Checked, check, manifest_text
from biclique_operator.desired.all import mounts_of_driver, objects_of
from biclique_operator.desired.driver_pod import driver_pod
from biclique_operator.desired.drivers import drivers_of
from biclique_operator.desired.names import QueryName
from biclique_operator.settings import Installation, settings_of
from tests.operator.manifests import WITH_EXECUTORS, spec

QUERY = QueryName("pairs", "joins", "0" * 36)


def specs_of_pods(installation: Installation) -> list[Any]:
    """Of every driver, and of its executors."""
    checked = check(manifest_text("pairs", spec(**WITH_EXECUTORS)))
    assert isinstance(checked, Checked)
    found: list[Any] = []
    drivers = drivers_of(checked.plan, checked.spec)
    for driver in drivers:
        mounts = mounts_of_driver(QUERY, checked, driver)
        found.append(driver_pod(QUERY, driver, 1, "", 1, {}, checked.text, mounts, installation)["spec"])
    for each in objects_of(QUERY, checked, drivers, {}, False, installation):
        if "executor.yaml" in each.get("data", {}):
            found.append(yaml.safe_load(each["data"]["executor.yaml"])["spec"])
        assert "imagePullSecrets" not in each
    return found


@pytest.mark.parametrize(("told", "wanted"), [("a,b", [{"name": "a"}, {"name": "b"}]), ("", None)])
def test_every_pod_names_the_secrets(told: str, wanted: object) -> None:
    installation = settings_of({"BICLIQUE_IMAGE_PULL_SECRETS": told}, None, "0").installation
    specs = specs_of_pods(installation)
    assert len(specs) >= 4 + 3
    assert [each.get("imagePullSecrets") for each in specs] == [wanted] * len(specs)
