"""Everything that a query wants to exist but for its pods, in the order in which it is made: what others need comes
first."""

from __future__ import annotations

from biclique_operator.checked import Checked
from biclique_operator.desired import accounts, config_maps
from biclique_operator.desired.disruption_budget import disruption_budget
from biclique_operator.desired.drivers import Driver, claim_of, secrets_of
from biclique_operator.desired.names import QueryName
from biclique_operator.desired.network_policy import network_policy
from biclique_operator.desired.pods import Mounts
from biclique_operator.desired.service import service
from biclique_operator.desired.subgroup import subgroup
from biclique_operator.settings import Installation

Raw = dict[str, object]
# What belongs to a query, and goes when the query wants it no more.
KINDS = (
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "NetworkPolicy",
    "Service",
    "PodDisruptionBudget",
    "ConfigMap",
    "JoinSubgroup",
)


def objects_of(
    query: QueryName,
    checked: Checked,
    drivers: tuple[Driver, ...],
    replicas: dict[str, int],
    stopping: bool,
    installation: Installation,
) -> tuple[Raw, ...]:
    """`replicas`: of subgroups that are there already, by name."""
    with_executors = {driver.tier: driver for driver in drivers if driver.executors}
    return (
        *accounts.accounts(query),
        accounts.role(query, bool(with_executors)),
        accounts.role_binding(query),
        network_policy(query),
        service(query),
        disruption_budget(query, len(drivers)),
        config_maps.manifest(query, checked.text),
        config_maps.routing(query, stopping),
        *(
            config_maps.spark(query, driver, mounts_of_driver(query, checked, driver), installation.images)
            for driver in with_executors.values()
        ),
        *(
            subgroup(query, driver.subgroup, replicas.get(driver.subgroup, driver.units))
            for driver in drivers
            if driver.subgroup is not None
        ),
    )


def mounts_of_driver(name: QueryName, checked: Checked, driver: Driver) -> Mounts:
    query = checked.plan.query
    shared = name.authentication if driver.executors else None
    return Mounts(secrets_of(query), claim_of(query, driver), shared)
