"""The chart on a real API server: Helm installs, upgrades and removes it, and the operator's service account may do
what the operator does, and no more.

There is no node, so no pod starts; what a pod may be is asked of the API server, in a namespace that lets in nothing
but the restricted profile.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from biclique_operator.desired.accounts import role, role_binding
from biclique_operator.desired.names import QueryName
from infra import processes
from infra.cluster.binaries import NotBuilt, program
from infra.cluster.control_plane import answers_http, api_server
from tests.chart.rendering import CHART, rendered
from tests.chart.test_templates import TRYOUT

ROOT = CHART.parents[1]
LIMIT_S = 30.0
OPERATOR = "system:serviceaccount:biclique:biclique-operator"


class Cluster:
    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def helm(self, *words: str, given: str = "") -> str:
        return self._run("helm", words, given)

    def kubectl(self, *words: str, given: str = "") -> str:
        return self._run("kubectl", words, given)

    def make(self, target: str, *words: str) -> str:
        """As a person who has `kubectl` and `helm`; of whoever makes the tests it is not told."""
        own = {name: value for name, value in self._environment().items() if not name.startswith("MAKE")}
        own["PATH"] = f"{program('helm').parent}:{os.environ['PATH']}"
        return self._call(["make", "--no-print-directory", target, *words], own)

    def comes(self, kind: str, labels: str, fields: str = "") -> None:
        limit = time.monotonic() + LIMIT_S
        while not self.kubectl(
            "--namespace=joins", "get", kind, "-l", labels, f"--field-selector={fields}", "-o", "name"
        ):
            assert time.monotonic() < limit, f"no {kind} came"
            time.sleep(0.3)

    @contextmanager
    def operator(self, folder: Path, watched: str) -> Iterator[Path]:
        """As the service account that the chart makes for it; its log."""
        told = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        token = self.kubectl("--namespace=biclique", "create", "token", "biclique-operator")
        told["users"] = [{"name": user["name"], "user": {"token": token.strip()}} for user in told["users"]]
        kubeconfig, log, port = folder / "kubeconfig", folder / "log", processes.free_port()
        kubeconfig.write_text(json.dumps(told), encoding="utf-8")
        settings = {"BICLIQUE_OPERATOR_NAMESPACE": "biclique", "BICLIQUE_WATCH_NAMESPACE": watched}
        command = ["env", *(f"{name}={value}" for name, value in settings.items()), f"BICLIQUE_HEALTH_PORT={port}"]
        command += [sys.executable, "-m", "biclique_operator", "run", "--kubeconfig", str(kubeconfig)]
        process = processes.start(command, folder, lambda: answers_http(f"http://127.0.0.1:{port}/readyz"))
        try:
            yield log
        finally:
            processes.stop(process)

    def may(self, verb: str, what: str, *words: str, who: str = OPERATOR) -> bool:
        command = [str(program("kubectl")), "auth", "can-i", verb, what, f"--as={who}", *words]
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, timeout=60)
        return done.stdout.strip() == "yes"

    def _run(self, name: str, words: tuple[str, ...], given: str = "") -> str:
        return self._call([str(program(name)), *words], self._environment(), given)

    def _call(self, command: list[str], environment: dict[str, str], given: str = "") -> str:
        done = subprocess.run(
            command, input=given, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        if done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self._kubeconfig)}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    try:
        for name in ("kube-apiserver", "etcd", "kubectl", "helm"):
            program(name)
    except NotBuilt as reason:
        pytest.skip(f"needs an API server and Helm: {reason}")
    with api_server(tmp_path_factory.mktemp("api")) as kubeconfig:
        cluster = Cluster(kubeconfig)
        cluster.kubectl("create", "namespace", "biclique")
        cluster.kubectl("label", "namespace", "biclique", "pod-security.kubernetes.io/enforce=restricted")
        cluster.kubectl("create", "namespace", "joins")
        yield cluster


def notes(cluster: Cluster, values: dict[str, Any], release: str = "biclique", namespace: str = "biclique") -> str:
    words = ("install", release, str(CHART), "--namespace", namespace, "--dry-run=client", "--values", "-")
    return cluster.helm(*words, given=json.dumps(values)).partition("NOTES:")[2]


def test_the_notes_tell_the_next_step(cluster: Cluster) -> None:
    assert "looks after the JoinQueries of all namespaces" in notes(cluster, {})
    assert "tryout.kafka.enabled=true" in notes(cluster, {})
    look = notes(cluster, TRYOUT)
    assert "kubectl -n biclique apply -f examples/orders-offers/kubernetes.yaml" in look
    assert "bootstrapServers:" not in look
    elsewhere = notes(cluster, TRYOUT, "joins", "tries")
    assert "bootstrapServers: joins-biclique-kafka.tries.svc:9092" in elsewhere
    assert "apply --server-side -f charts/biclique/files/crds" in notes(cluster, {"crds": {"install": False}})
    assert "of namespace joins." in notes(cluster, {"watchNamespace": "joins"})


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Cluster:
    cluster.helm(
        "install", "biclique", str(CHART), "--namespace", "biclique", *_set(TRYOUT), "--set=networkPolicy=true"
    )
    cluster.kubectl("wait", "--for=condition=Established", "crd/joinqueries.biclique.dev", "--timeout=30s")
    return cluster


def _set(values: dict[str, Any]) -> list[str]:
    return [f"--set={block}.{key}.enabled=true" for block, inner in values.items() for key in inner]


def test_every_pod_of_it_is_let_in_where_only_restricted_ones_are(installed: Cluster) -> None:
    for name, pod in rendered(TRYOUT).pods():
        # Nobody makes the namespace's own account here.
        spec = {**pod, "serviceAccountName": "biclique-operator"}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "biclique"}, "spec": spec}
        installed.kubectl("create", "--dry-run=server", "-f", "-", given=json.dumps(made))


@pytest.mark.parametrize("namespace", ["biclique", "joins", "default"])
def test_the_operator_may_do_what_it_does(installed: Cluster, namespace: str) -> None:
    here = f"--namespace={namespace}"
    for what in ("pods", "configmaps", "serviceaccounts", "roles.rbac.authorization.k8s.io"):
        assert installed.may("create", what, here) and installed.may("patch", what, here)
    for what in ("joinqueries.biclique.dev", "joinsubgroups.biclique.dev", "pods", "configmaps"):
        assert installed.may("watch", what, here)
    assert installed.may("patch", "joinqueries.biclique.dev", here)
    assert installed.may("patch", "joinqueries.biclique.dev", "--subresource=status", here)
    assert installed.may("create", "events", here)
    assert installed.may("get", "secrets/kafka", here)
    assert installed.may("create", "secrets", here)
    assert not installed.may("patch", "secrets/kafka", here) and not installed.may("delete", "secrets/kafka", here)
    assert not installed.may("list", "secrets", here)
    assert not installed.may("create", "joinqueries.biclique.dev", here)
    assert installed.may("update", "leases.coordination.k8s.io", here) is (namespace == "biclique")
    assert not installed.may("create", "clusterroles.rbac.authorization.k8s.io")
    assert not installed.may("get", "nodes")


@pytest.mark.parametrize("watched", ["", "joins"])
def test_the_operator_works_with_these_rights_alone(installed: Cluster, watched: str, tmp_path: Path) -> None:
    """The operator itself, as its account: it sees a query, makes what belongs to it, and is refused nothing."""
    installed.helm(
        "upgrade",
        "biclique",
        str(CHART),
        "--namespace",
        "biclique",
        "--reset-then-reuse-values",
        f"--set=watchNamespace={watched}",
    )
    name = f"seen-{watched or 'everywhere'}"
    query = yaml.safe_load((ROOT / "examples/orders-offers/kubernetes.yaml").read_text(encoding="utf-8"))
    query["metadata"] = {"name": name, "namespace": "joins"}
    with installed.operator(tmp_path, watched) as log:
        installed.kubectl("create", "-f", "-", given=json.dumps(query))
        for kind in ("serviceaccount", "rolebinding", "service", "configmap", "networkpolicy", "pod", "joinsubgroup"):
            installed.comes(kind, f"biclique.dev/query={name}")
        installed.kubectl(
            "--namespace=joins",
            "wait",
            f"joinquery/{name}",
            "--for=jsonpath={.status.observedGeneration}=1",
            "--timeout=30s",
        )
        installed.comes("event", "", f"involvedObject.name={name}")
        installed.kubectl("--namespace=joins", "delete", "joinquery", name, "--timeout=60s")
        assert "orbidden" not in log.read_text(), log.read_text()


@pytest.mark.parametrize("executors", [False, True])
def test_the_operator_may_give_drivers_their_rights(installed: Cluster, executors: bool) -> None:
    """Kubernetes lets nobody grant what he does not have."""
    query = QueryName("pairs", "joins", "0" * 36)
    for made in (role(query, executors), role_binding(query)):
        installed.kubectl("apply", "--server-side", f"--as={OPERATOR}", "-f", "-", given=json.dumps(made))


def test_people_who_may_edit_may_edit_queries(installed: Cluster) -> None:
    binding = [
        "create",
        "rolebinding",
        "ann",
        "--clusterrole=biclique-biclique-edit",
        "--user=ann",
        "--namespace=joins",
    ]
    installed.kubectl(*binding)
    assert installed.may("create", "joinqueries.biclique.dev", "--namespace=joins", who="ann")
    assert installed.may("patch", "joinsubgroups.biclique.dev", "--subresource=scale", "--namespace=joins", who="ann")
    assert not installed.may(
        "patch", "joinqueries.biclique.dev", "--subresource=status", "--namespace=joins", who="ann"
    )


def test_an_upgrade_changes_the_definitions_and_a_removal_leaves_them(installed: Cluster) -> None:
    """The upgrade path: what an older release has put there is what the new one says afterwards."""
    short = "/spec/names/shortNames/0"
    older = json.dumps([{"op": "replace", "path": short, "value": "older"}])
    installed.kubectl("patch", "crd", "joinqueries.biclique.dev", "--type=json", f"--patch={older}")
    query = yaml.safe_load((ROOT / "examples/orders-offers/kubernetes.yaml").read_text(encoding="utf-8"))
    installed.kubectl("--namespace=joins", "create", "-f", "-", given=json.dumps(query))
    installed.helm("upgrade", "biclique", str(CHART), "--namespace", "biclique", "--reset-then-reuse-values")
    read = ("get", "crd", "joinqueries.biclique.dev", "-o", "jsonpath={.spec.names.shortNames}")
    assert installed.kubectl(*read) == '["jq"]'
    installed.helm("uninstall", "biclique", "--namespace", "biclique")
    assert "orders-offers" in installed.kubectl("--namespace=joins", "get", "joinqueries", "-o", "name")
    assert not installed.kubectl("get", "clusterroles", "-o", "name", "-l", "app.kubernetes.io/instance=biclique")


def test_make_installs_it_and_takes_it_away_when_no_query_is_left(cluster: Cluster) -> None:
    """On the cluster of the current context. Nothing becomes ready where there is no node, so it is not waited for."""
    release = ("NAMESPACE=makes", "RELEASE=biclique")
    cluster.make("deploy", *release, "ARGS=--wait=false --take-ownership --set watchNamespace=makes")
    settings = ("--namespace=makes", "get", "deployment", "biclique-operator", "-o", "yaml")
    made = yaml.safe_load(cluster.kubectl(*settings))["spec"]["template"]["spec"]["containers"][0]
    assert made["image"] == "localhost/biclique-operator:dev", "as images/values.yaml says"
    assert {"name": "BICLIQUE_WATCH_NAMESPACE", "value": "makes"} in made["env"]
    query = yaml.safe_load((ROOT / "examples/orders-offers/kubernetes.yaml").read_text(encoding="utf-8"))
    cluster.kubectl("--namespace=makes", "create", "-f", "-", given=json.dumps(query))
    with pytest.raises(AssertionError, match="There are queries that nobody would look after"):
        cluster.make("undeploy", *release)
    assert "biclique-operator" in cluster.kubectl("--namespace=makes", "get", "deployments", "-o", "name")
    cluster.kubectl("delete", "joinqueries", "--all", "--all-namespaces")
    cluster.make("undeploy", *release)
    assert not cluster.kubectl("--namespace=makes", "get", "deployments,services,roles", "-o", "name")


def test_an_upgrade_from_a_chart_without_a_block_says_so_or_takes_the_defaults(
    cluster: Cluster, tmp_path: Path
) -> None:
    older = tmp_path / "biclique"
    shutil.copytree(CHART, older)
    shutil.rmtree(older / "templates/monitoring")
    (older / "values.schema.json").unlink()
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    del values["monitoring"], values["rbac"]["aggregate"]
    (older / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    own = ["--set=watchNamespace=joins", "--set=crds.install=false", "--set=replicas=3"]
    cluster.helm("install", "older", str(older), "--namespace=joins", *own)
    with pytest.raises(AssertionError) as refusal:
        cluster.helm("upgrade", "older", str(CHART), "--namespace=joins", "--reuse-values")
    for missing in ("at '': missing property 'monitoring'", "at '/rbac': missing property 'aggregate'"):
        assert missing in str(refusal.value)
    cluster.helm("upgrade", "older", str(CHART), "--namespace=joins", "--reset-then-reuse-values")
    read = ("get", "deployment", "older-biclique-operator", "-o", "jsonpath={.spec.replicas}")
    assert cluster.kubectl("--namespace=joins", *read) == "3"
    cluster.helm("uninstall", "older", "--namespace=joins")
