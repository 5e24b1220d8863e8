"""The chart's templates, rendered by Helm for the installations that people make, and looked at object by object."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import pytest
import yaml

from biclique_operator.crd.definitions import definitions
from biclique_operator.desired.accounts import role
from biclique_operator.desired.names import QueryName
from biclique_operator.desired.network_policy import network_policy
from biclique_operator.health import Health
from biclique_operator.settings import settings_of
from biclique_operator.telemetry import METRICS_PORT
from tests.chart.rendering import CHART, Refused, Rendered, helm, rendered

TRYOUT = {"tryout": {"kafka": {"enabled": True}, "redis": {"enabled": True}, "load": {"enabled": True}}}
WATCHED = {"serviceMonitor": True, "podMonitor": True, "alerts": True, "dashboards": True}
EVERYTHING = {
    **TRYOUT,
    "replicas": 2,
    "networkPolicy": True,
    "monitoring": {**WATCHED, "labels": {"release": "prometheus"}},
    "telemetry": {"otlpEndpoint": "http://collector:4318", "traceRatio": "0.5", "env": {"OTEL_LOG_LEVEL": "info"}},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "joins", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "priorityClassName": "high",
    "podAnnotations": {"a": "b"},
    "podLabels": {"team": "joins"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"annotations": {"a": "b"}},
}
INSTALLATIONS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "one namespace": {"watchNamespace": "joins"},
    "a first look": TRYOUT,
    "everything": EVERYTHING,
}


@pytest.fixture(params=INSTALLATIONS, ids=lambda name: name.replace(" ", "-"))
def installation(request: pytest.FixtureRequest) -> Rendered:
    return rendered(INSTALLATIONS[request.param])


# --- all objects -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", INSTALLATIONS.values(), ids=lambda values: "-".join(values) or "nothing")
def test_helm_finds_nothing_wrong(values: dict[str, Any]) -> None:
    helm("lint", "--strict", str(CHART), values=values)


def test_no_two_objects_have_one_name(installation: Rendered) -> None:
    named = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in installation.objects
    ]
    assert len(named) == len(set(named))


def test_every_object_says_whose_it_is(installation: Rendered) -> None:
    for each in installation.objects:
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm", each["metadata"]["name"]
        assert labels["app.kubernetes.io/name"].startswith("biclique")
        assert len(each["metadata"]["name"]) <= 63


def test_nothing_of_it_can_be_taken_for_a_query(installation: Rendered) -> None:
    """Queries' pods have the name biclique, and so have their budgets, policies and monitors."""
    for each in installation.objects:
        is_definition = each["kind"] == "CustomResourceDefinition"
        assert is_definition or each["metadata"]["labels"]["app.kubernetes.io/name"] != "biclique"


@pytest.mark.parametrize("release", ["biclique", "joins", "a-name-of-a-release-that-is-as-long-as-helm-allows-it"])
def test_a_release_may_be_called_anything(release: str) -> None:
    for each in rendered(EVERYTHING, release).objects:
        assert len(each["metadata"]["name"]) <= 63


# --- pods ------------------------------------------------------------------------------------------------------------


def test_every_pod_is_restricted(installation: Rendered) -> None:
    """Kubernetes' strictest profile, and a root file system that cannot be written to."""
    for name, pod in installation.pods():
        security = pod["securityContext"]
        assert security["runAsNonRoot"] is True and security["runAsUser"] == 185, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert all("hostPath" not in volume for volume in pod.get("volumes", ()))
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"] and "cpu" in container["resources"]["requests"]


def test_only_the_operator_has_a_token(installation: Rendered) -> None:
    for name, pod in installation.pods():
        is_operator = name == "biclique-operator"
        assert pod.get("automountServiceAccountToken", True) is is_operator, name
        assert ("serviceAccountName" in pod) is is_operator


def operator(values: dict[str, Any]) -> dict[str, Any]:
    deployment = rendered(values).one("Deployment", "biclique-operator")
    return deployment["spec"]["template"]["spec"]["containers"][0]  # type: ignore[no-any-return]


def settings(values: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in operator(values)["env"] if "value" in each}


def test_the_operator_is_told_what_it_reads() -> None:
    assert settings({"watchNamespace": "joins", "spark": {"image": {"repository": "r/spark", "tag": "1"}}}) == {
        "BICLIQUE_INSTALLATION": "biclique",
        "BICLIQUE_WATCH_NAMESPACE": "joins",
        "BICLIQUE_IMAGE": "r/spark:1",
        "BICLIQUE_IMAGE_PULL_POLICY": "IfNotPresent",
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "0.0.0.0",
    }
    assert operator({})["args"] == ["biclique-operator", "run"]
    version = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))["appVersion"]
    assert operator({})["image"] == f"biclique/operator:{version}"
    digest = "sha256:" + "0" * 64
    assert operator({"image": {"digest": digest, "tag": "1"}})["image"] == f"biclique/operator@{digest}"


def test_a_registry_that_asks_who_comes_is_told() -> None:
    pods = {"imagePullSecrets": [{"name": "mine"}], "spark": {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}}
    assert settings(pods)["BICLIQUE_IMAGE_PULL_SECRETS"] == "a,b"
    pod = rendered(pods).one("Deployment", "biclique-operator")["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "mine"}]


def test_telemetry_is_what_was_asked_for() -> None:
    found = settings(EVERYTHING)
    assert found["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert found["OTEL_METRICS_EXPORTER"] == "otlp,prometheus"
    assert (found["OTEL_TRACES_SAMPLER"], found["OTEL_TRACES_SAMPLER_ARG"]) == ("parentbased_traceidratio", "0.5")
    assert found["OTEL_LOG_LEVEL"] == "info"
    silent = settings({"telemetry": {"prometheus": False}})
    assert not any(name.startswith("OTEL_") for name in silent)
    assert settings({"telemetry": {"env": {"OTEL_METRICS_EXPORTER": "none"}}})["OTEL_METRICS_EXPORTER"] == "none"


def test_a_second_operator_is_kept_apart_and_kept_through_drains() -> None:
    one, two = rendered(), rendered({"replicas": 2})
    assert not one.of_kind("PodDisruptionBudget")
    assert two.one("PodDisruptionBudget")["spec"]["minAvailable"] == 1
    pod = two.one("Deployment", "biclique-operator")["spec"]["template"]["spec"]
    assert pod["topologySpreadConstraints"][0]["topologyKey"] == "kubernetes.io/hostname"
    assert not rendered({"replicas": 2, "podDisruptionBudget": False}).of_kind("PodDisruptionBudget")


def test_what_selects_the_operator_finds_its_pods() -> None:
    found = rendered(EVERYTHING)
    labels = found.one("Deployment", "biclique-operator")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        found.one("Deployment", "biclique-operator")["spec"]["selector"]["matchLabels"],
        found.one("Service", "biclique-operator")["spec"]["selector"],
        found.one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        found.one("NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    service = found.one("Service", "biclique-operator")["metadata"]["labels"]
    assert found.one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= service.items()


def test_the_operator_is_reached_where_it_listens_and_nowhere_else() -> None:
    """By probes, `helm test` and whoever fetches metrics; and policies of its queries know it by its labels."""
    found = rendered(EVERYTHING)
    template = found.one("Deployment", "biclique-operator")["spec"]["template"]
    (container,) = template["spec"]["containers"]
    listens = {each["name"]: each["containerPort"] for each in container["ports"]}
    told = {each["name"]: each.get("value", "") for each in container["env"]}
    assert listens == {"health": settings_of(told, None, "0").health_port, "metrics": METRICS_PORT}
    assert "OTEL_EXPORTER_PROMETHEUS_PORT" not in told
    policy = found.one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["ingress"] == [{"ports": [{"protocol": "TCP", "port": name} for name in listens]}]
    assert {
        each["port"]: each["targetPort"] for each in found.one("Service", "biclique-operator")["spec"]["ports"]
    } == {number: name for name, number in listens.items()}
    asked = {probe["httpGet"]["port"] for name, probe in container.items() if name.endswith("Probe")}
    assert asked == {"health"}
    assert found.one("ServiceMonitor")["spec"]["endpoints"][0]["port"] == "metrics"
    of_queries = network_policy(QueryName("pairs", "joins", "0" * 36))["spec"]["ingress"]  # type: ignore[index]
    (peer,) = [each for rule in of_queries for each in rule.get("from", ()) if "namespaceSelector" in each]
    assert peer["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


# --- rights ----------------------------------------------------------------------------------------------------------


def rights(of: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {
        each for rule in of["rules"] for each in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"])
    }


def test_rights_are_in_one_namespace_if_that_is_all_it_watches() -> None:
    found = rendered({"watchNamespace": "joins", "rbac": {"aggregate": False}})
    assert not found.of_kind("ClusterRole") and not found.of_kind("ClusterRoleBinding")
    role, binding = found.one("Role", "biclique-operator"), found.one("RoleBinding", "biclique-operator")
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == "joins"
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "biclique-operator"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "biclique-operator", "namespace": "biclique"}]
    assert not any(resource == "namespaces" for _, resource, _ in rights(role))


def test_rights_are_in_all_of_the_cluster_if_it_watches_that() -> None:
    found = rendered()
    role, binding = found.one("ClusterRole", "biclique-biclique"), found.one("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert rights(rendered({"watchNamespace": "joins"}).one("Role", "biclique-operator")) <= rights(role)


def test_its_lease_is_in_its_own_namespace() -> None:
    for values in ({}, {"watchNamespace": "joins"}):
        role = rendered(values).one("Role", "biclique-operator-own")
        assert role["metadata"]["namespace"] == "biclique"
        assert ("coordination.k8s.io", "leases", "update") in rights(role)


def test_two_releases_in_one_namespace_have_each_its_own_lease_and_leftovers() -> None:
    def named(release: str) -> set[str]:
        made = rendered({"watchNamespace": release}, release).of_kind("Deployment")[0]
        (container,) = made["spec"]["template"]["spec"]["containers"]
        told = {each["name"]: each["value"] for each in container["env"] if "value" in each}
        settings = settings_of(told, None, "0")
        return {settings.lease, settings.leftovers}

    assert named("biclique") == {"biclique-operator", "biclique-leftovers"}
    assert len(named("orders") | named("clicks")) == 4


def test_it_has_what_it_grants_to_drivers() -> None:
    """Kubernetes lets nobody grant what he does not have."""
    held = rights(rendered().one("ClusterRole", "biclique-biclique"))
    assert rights(role(QueryName("pairs", "joins", "0" * 36), executors=True)) <= held
    assert ("", "persistentvolumeclaims", "get") not in held, "nobody makes any"


def test_with_services_it_may_do_what_it_does_with_them() -> None:
    """An apply is a patch that creates; nobody asks for one by its name, and no driver is granted any."""
    held = rights(rendered().one("ClusterRole", "biclique-biclique"))
    used = {"list", "watch", "create", "patch", "delete"}
    assert {verb for _, resource, verb in held if resource == "services"} == used


def test_it_reads_secrets_by_name_alone_and_has_no_stars() -> None:
    for found in (rendered(), rendered({"watchNamespace": "joins"})):
        held = set().union(*(rights(role) for role in [*found.of_kind("ClusterRole"), *found.of_kind("Role")]))
        assert {verb for group, resource, verb in held if resource == "secrets"} == {"get", "create"}
        assert not any("*" in right for right in held)
        assert not any(verb in {"bind", "escalate", "impersonate"} for _, _, verb in held)


def test_people_see_and_edit_queries_by_the_clusters_own_roles() -> None:
    view = rendered().one("ClusterRole", "biclique-biclique-view")
    assert view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert {verb for *_, verb in rights(view)} == {"get", "list", "watch"}
    edit = rendered().one("ClusterRole", "biclique-biclique-edit")
    assert not any(resource.endswith("/status") for _, resource, _ in rights(edit))
    assert not rendered({"rbac": {"create": False}}).of_kind("ClusterRole")


# --- definitions -----------------------------------------------------------------------------------------------------


def test_the_definitions_are_those_of_the_models_and_stay() -> None:
    found = {each["metadata"]["name"]: each for each in rendered().of_kind("CustomResourceDefinition")}
    made = {each["metadata"]["name"]: each for each in definitions().values()}
    assert found.keys() == made.keys()
    for name, definition in found.items():
        assert definition["spec"] == made[name]["spec"]
        assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_definitions_may_be_somebody_elses() -> None:
    assert not rendered({"crds": {"install": False}}).of_kind("CustomResourceDefinition")
    for definition in rendered({"crds": {"keep": False}}).of_kind("CustomResourceDefinition"):
        assert "annotations" not in definition["metadata"]


# --- a first look ----------------------------------------------------------------------------------------------------


def test_a_first_look_is_off_unless_asked_for() -> None:
    assert rendered().names() & {"Deployment/biclique-kafka", "Deployment/biclique-redis"} == set()


def test_the_example_names_what_a_first_look_starts() -> None:
    example = yaml.safe_load((CHART.parents[1] / "examples/orders-offers/kubernetes.yaml").read_text(encoding="utf-8"))
    found = rendered(TRYOUT)
    kafka = found.one("Deployment", "biclique-kafka")["spec"]["template"]["spec"]["containers"][0]
    assert kafka["image"] == "apache/kafka:4.3.1"
    told = found.one("ConfigMap", "biclique-kafka")["data"]["server.properties"]
    servers = example["spec"]["output"]["kafka"]["bootstrapServers"]
    assert f"advertised.listeners=CLIENTS://{servers},FORWARDED://localhost:19092\n" in told
    assert {source["kafka"]["bootstrapServers"] for source in example["spec"]["sources"]} == {servers}
    load = found.one("Deployment", "biclique-load")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "BOOTSTRAP_SERVERS", "value": servers} in load["env"]
    redis = found.one("Service", "biclique-redis")
    host = f"{redis['metadata']['name']}.{redis['metadata']['namespace']}.svc:6379"
    assert example["spec"]["state"]["redis"]["url"] == f"redis://{host}/0"


def test_its_kafka_may_outlive_its_pod() -> None:
    def data(values: dict[str, Any]) -> dict[str, Any]:
        pod = rendered(values).one("Deployment", "biclique-kafka")["spec"]["template"]["spec"]
        (found,) = [volume for volume in pod["volumes"] if volume["name"] == "data"]
        return {key: value for key, value in found.items() if key != "name"}

    assert data(TRYOUT) == {"emptyDir": {}}
    kept = {"tryout": {"kafka": {"enabled": True, "claim": "kafka"}}}
    assert data(kept) == {"persistentVolumeClaim": {"claimName": "kafka"}}


def test_a_first_look_may_use_a_kafka_that_is_there() -> None:
    values = {"tryout": {"load": {"enabled": True, "bootstrapServers": "mine:9092", "rowsPerSecond": 0.5}}}
    load = rendered(values).one("Deployment", "biclique-load")["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "BOOTSTRAP_SERVERS", "value": "mine:9092"} in load["env"]
    assert {"name": "ROWS_PER_SECOND", "value": "0.5"} in load["env"]


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"watchNamespaces": "a"}, "watchNamespaces"),
        ({"image": {"repo": "a"}}, "repo"),
        ({"watchNamespace": "A b"}, "watchNamespace"),
        ({"replicas": "two"}, "replicas"),
        ({"spark": {"image": {"pullPolicy": "Sometimes"}}}, "pullPolicy"),
        ({"telemetry": {"env": {"PATH": "/"}}}, "PATH"),
        ({"telemetry": {"env": {"OTEL_EXPORTER_PROMETHEUS_PORT": "9000"}}}, "OTEL_EXPORTER_PROMETHEUS_PORT"),
        ({"image": {"digest": "sha256:0"}}, "digest"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
        ({"telemetry": {"traceRatio": "often"}}, "traceRatio"),
        ({"telemetry": {"traceRatio": 1.5}}, "traceRatio"),
        ({"telemetry": {"otlpEndpoint": "collector:4318"}}, "otlpEndpoint"),
        ({"resources": {"limits": {"memory": "512MB"}}}, "memory"),
        ({"resources": {"claims": []}}, "claims"),
        ({"tryout": {"kafka": {"resources": {"requests": {"cpu": "much"}}}}}, "cpu"),
        ({"tolerations": [{"key": "joins", "operator": "exists"}]}, "operator"),
        ({"tolerations": [{"keys": "joins"}]}, "keys"),
        ({"affinity": {"node": {}}}, "node"),
        ({"podLabels": {"app.kubernetes.io/name": "mine"}}, "app.kubernetes.io/name"),
        ({"imagePullSecrets": ["registry"]}, "imagePullSecrets"),
        ({"imagePullSecrets": [{"name": ""}]}, "imagePullSecrets"),
        ({"monitoring": {"interval": "often"}}, "interval"),
        ({"monitoring": {"portsOfAPod": 0}}, "portsOfAPod"),
        ({"tryout": {"load": {"rowsPerSecond": 0}}}, "rowsPerSecond"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_values_that_are_none_are_refused(values: dict[str, Any], told: str) -> None:
    with pytest.raises(Refused, match=told.replace(".", r"\.")):
        rendered(values)


@pytest.mark.parametrize(
    "place",
    # All blocks, and one value of each: what each of the others must be there for, the schema says (tests/unit/chart).
    ["crds", "image", "monitoring", "rbac", "spark", "telemetry", "tryout.kafka", "rbac.create", "spark.image.tag"],
)
def test_a_value_that_an_older_chart_did_not_have_is_named_and_not_taken_for_off(place: str) -> None:
    """As after `helm upgrade --reuse-values`, which knows no defaults but the older chart's."""
    values: Any = None
    for key in reversed(place.split(".")):
        values = {key: values}
    above, _, missing = ("/" + place.replace(".", "/")).rpartition("/")
    with pytest.raises(Refused, match=f"at '{above}': missing property '{missing}'"):
        rendered(values)


def test_lists_and_maps_of_kubernetes_own_words_may_be_left_empty() -> None:
    values = {"resources": {"limits": None}, "affinity": {}, "nodeSelector": {}, "podLabels": {}}
    assert "limits" not in operator(values)["resources"]


# --- helm test -------------------------------------------------------------------------------------------------------


def test_helm_test_asks_the_operator_where_it_answers() -> None:
    for release in ("biclique", "joins"):
        found = rendered(EVERYTHING, release, "elsewhere")
        (pod,) = found.of_kind("Pod")
        about, spec = pod["metadata"], pod["spec"]
        assert about["annotations"]["helm.sh/hook"] == "test" and spec["restartPolicy"] == "Never"
        (deployment,) = [each for each in found.of_kind("Deployment") if each["metadata"]["name"].endswith("operator")]
        of_operator = deployment["spec"]["template"]["spec"]
        (container,), (operators,) = spec["containers"], of_operator["containers"]
        assert (container["image"], container["imagePullPolicy"]) == (operators["image"], operators["imagePullPolicy"])
        assert spec["imagePullSecrets"] == of_operator["imagePullSecrets"]
        selector = deployment["spec"]["selector"]["matchLabels"]
        assert not selector.items() <= about["labels"].items(), "nobody sends the operator's traffic there"
        service = found.one("Service", deployment["metadata"]["name"])
        (port,) = [each["port"] for each in service["spec"]["ports"] if each["name"] == "health"]
        url = (
            f"http://{service['metadata']['name']}.elsewhere.svc:{port}{operators['readinessProbe']['httpGet']['path']}"
        )
        *command, program = container["args"]
        assert command == ["python", "-c"] and f'"{url}"' in program
        compile(program, "the test", "exec")


@pytest.mark.parametrize("ready", [True, False])
def test_helm_test_ends_as_the_operator_is(ready: bool) -> None:
    """Its program, against a server of ours; with less patience."""
    health = Health(0, lambda: None, lambda: None if ready else "not everything has been listed yet")
    health.begin()
    try:
        (pod,) = rendered().of_kind("Pod")
        program = pod["spec"]["containers"][0]["args"][-1]
        url = "http://biclique-operator.biclique.svc:8080"
        assert url in program and "+ 120" in program
        here = program.replace(url, f"http://127.0.0.1:{health.port}").replace("+ 120", "+ 1")
        done = subprocess.run([sys.executable, "-c", here], capture_output=True, text=True, timeout=30)
    finally:
        health.close()
    assert (done.returncode == 0) is ready, done.stderr
    assert ("ok" in done.stdout) if ready else ("the operator is not ready: HTTP Error 503" in done.stderr)
