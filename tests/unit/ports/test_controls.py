"""Which control port a setting names, and how names stand in a ConfigMap's keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from biclique.ports.control_folder import ControlFolder
from biclique.ports.control_kubernetes import quoted, unquoted
from biclique.ports.control_relay import ControlRelay
from biclique.ports.controls import open_control, relay_at
from biclique.query.errors import QueryError


def test_a_folder_or_a_driver(tmp_path: Path) -> None:
    assert isinstance(open_control(str(tmp_path)), ControlFolder)
    assert isinstance(open_control(relay_at("10.88.0.9", 7077), "token"), ControlRelay)


@pytest.mark.parametrize("text", ["kubernetes:", "kubernetes:shop", "kubernetes:/orders", "kubernetes:shop/"])
def test_a_config_map_has_a_namespace_and_a_name(text: str) -> None:
    with pytest.raises(QueryError, match="names no ConfigMap; write kubernetes:<namespace>/<ConfigMap>"):
        open_control(text)


def test_without_a_cluster_it_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(QueryError, match=r"no Kubernetes API is known here .*set KUBECONFIG"):
        open_control("kubernetes:shop/orders-routing")


@given(st.text(max_size=30))
def test_a_name_comes_back_from_its_key(name: str) -> None:
    assert re.fullmatch(r"[-._a-zA-Z0-9]*", quoted(name))
    assert unquoted(quoted(name)) == name
