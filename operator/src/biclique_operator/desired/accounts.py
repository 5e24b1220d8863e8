"""Who a query's pods are: drivers may write this query's routing tables, and make and remove executors where there are
any; executors may do nothing, and carry no token."""

from __future__ import annotations

from biclique_operator.desired.names import QueryName, metadata

# All that Spark asks for as it is told to go about (biclique/hosts/spark_pods.py): no ConfigMap, Service or claim.
SPARK_RIGHTS = ["get", "list", "watch", "create", "patch", "delete", "deletecollection"]


def accounts(query: QueryName, pull_secrets: tuple[str, ...] = ()) -> tuple[dict[str, object], ...]:
    """`pull_secrets`: of images, for every pod that has one of the accounts."""
    return (
        _account(query, query.driver_account, True, pull_secrets),
        _account(query, query.executor_account, False, pull_secrets),
    )


def _account(query: QueryName, name: str, token: bool, pull_secrets: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(query, name),
        "automountServiceAccountToken": token,
    }
    return found | ({"imagePullSecrets": [{"name": name} for name in pull_secrets]} if pull_secrets else {})


def role(query: QueryName, executors: bool) -> dict[str, object]:
    """Its own routing tables alone. For executors Spark lists pods by label, and removes collections of them:
    Kubernetes has no rights by label, so within its namespace a driver that has some may do that to others' pods, too.
    """
    routing = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [query.routing],
        "verbs": ["get", "list", "watch", "patch"],
    }
    pods = {"apiGroups": [""], "resources": ["pods"], "verbs": SPARK_RIGHTS}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": metadata(query, query.driver_account),
        "rules": [routing, pods] if executors else [routing],
    }


def role_binding(query: QueryName) -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": metadata(query, query.driver_account),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": query.driver_account},
        "subjects": [{"kind": "ServiceAccount", "name": query.driver_account, "namespace": query.namespace}],
    }
