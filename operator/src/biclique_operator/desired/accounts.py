"""Who a query's pods are: drivers may write this query's routing tables, and make and remove executors where there are
any; executors may do nothing, and carry no token."""

from __future__ import annotations

from biclique_operator.desired.names import QueryName, metadata

# All that Spark asks for as it is told to go about (biclique/hosts/spark_pods.py): no ConfigMap, Service or claim.
SPARK_RIGHTS = ["get", "list", "watch", "create", "patch", "delete", "deletecollection"]


def accounts(query: QueryName) -> tuple[dict[str, object], ...]:
    """Without Secrets for images: some clusters add theirs to every account, and a list has one owner."""
    return _account(query, query.driver_account, True), _account(query, query.executor_account, False)


def _account(query: QueryName, name: str, token: bool) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(query, name),
        "automountServiceAccountToken": token,
    }


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
