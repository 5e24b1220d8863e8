"""What a driver is made of, as far as its user says it: the same for every version of the operator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from biclique_operator.checked import Checked, check, manifest_text
from biclique_operator.desired.driver_pod import pod_name
from biclique_operator.desired.drivers import MIB, Driver, drivers_of
from biclique_operator.desired.names import QueryName
from biclique_operator.policies.rollout import CONCERNS, spec_hash
from tests.operator.manifests import GROUPED, spec


def checked(**changes: Any) -> Checked:
    found = check(manifest_text("fits", spec(**changes)))
    assert isinstance(found, Checked), found
    return found


def hashes(restart: str = "", **changes: Any) -> dict[str, str]:
    found = checked(**changes)
    return {driver.name: spec_hash(driver, found.spec, restart) for driver in drivers_of(found.plan, found.spec)}


def test_an_upgrade_of_the_operator_rolls_nothing() -> None:
    """Whoever changes these rolls every query of everybody at the next upgrade."""
    assert hashes() == {
        "shuffler": "5fdde94918e15de9",
        "dispatcher": "8a20e6005de6d3c8",
        "joiner-0L0": "6570eaf21af99e8b",
        "joiner-0R0": "6570eaf21af99e8b",
    }


def test_another_default_of_processors_or_memory_rolls_nothing() -> None:
    """As drivers were made while a pod that says nothing asked for 500m; it is 250m now, and may be anything."""
    assert hashes(sql=GROUPED, tiers={}) == {
        "shuffler": "d523473e2adc34f0",
        "dispatcher": "36f9bdb74efae141",
        "joiner-0L0": "4463964e2cbe503c",
        "joiner-0R0": "4463964e2cbe503c",
        "merger": "2416ac8ce747f426",
    }
    found = checked(sql=GROUPED, tiers={})
    for driver in drivers_of(found.plan, found.spec):
        by_another = replace(driver, pods=replace(driver.pods, cpu=77, memory_bytes=77 * MIB))
        assert spec_hash(by_another, found.spec, "") == spec_hash(driver, found.spec, "")


def test_a_default_that_is_written_out_rolls_nothing() -> None:
    assert hashes(delivery="exactlyOnce", topics={"partitions": 4}, plan={"transport": "auto"}) == hashes()
    assert hashes(tiers={"executors": 0, "cpu": "0.1", "memory": "1024Mi"}) == hashes()


def test_another_word_in_the_annotation_rolls_everything() -> None:
    before, after = hashes(), hashes(restart="2026-03-01")
    assert all(before[name] != after[name] for name in before)


def test_each_key_of_the_table_is_one_of_the_manifest() -> None:
    """A word that is misspelt there would roll every tier."""
    known = checked().spec.model_dump(by_alias=True)
    for path in CONCERNS:
        place: Any = known
        for part in path.split("."):
            name = part.removesuffix("[]")
            assert name in place, f"{path}: {name}"
            place = place[name][0] if part.endswith("[]") else place[name]


# --- drivers ---------------------------------------------------------------------------------------------------------


def driver(name: str, **changes: Any) -> Driver:
    found = checked(**changes)
    return next(each for each in drivers_of(found.plan, found.spec) if each.name == name)


def test_units_in_the_driver_share_its_memory_and_units_in_executors_have_their_own() -> None:
    units = {"joiners": {"memory": "2Gi", "replicas": 3}, "plan": {"subgroups": {"orders": 1, "offers": 1}}}
    inside = driver("joiner-0L0", **units)
    assert (inside.executors, inside.memory_bytes) == (0, 7 * 1024 * MIB)
    outside = driver("joiner-0L0", **units, tiers={"executors": 1})
    assert (outside.executors, outside.memory_bytes, outside.executor_bytes) == (3, 1024 * MIB, 3 * 1024 * MIB)


def test_a_driver_that_only_looks_after_executors_asks_for_little() -> None:
    assert driver("dispatcher", tiers={"executors": 1, "cpu": 2}).driver_cpu == 100
    assert driver("dispatcher", tiers={"executors": 0, "cpu": 2}).driver_cpu == 2000


@pytest.mark.parametrize("executors", [0, 1])
def test_a_query_that_says_nothing_of_processors_fits_two(executors: int) -> None:
    """With a merger, and beside the operator and the cluster's DNS, which ask for 100m each."""
    found = checked(sql=GROUPED, tiers={"executors": executors})
    drivers = drivers_of(found.plan, found.spec)
    assert len(drivers) == 5 and sum(each.executors for each in drivers) == 5 * executors
    assert sum(each.driver_cpu + each.executors * each.pods.cpu for each in drivers) <= 2000 - 200


def test_no_more_executors_than_units() -> None:
    assert driver("dispatcher", tiers={"executors": 9}, topics={"partitions": 2}).executors == 2


def test_a_merger_where_there_are_groups() -> None:
    assert driver("merger", sql=GROUPED).units >= 1


@pytest.mark.parametrize("name", ["a", "orders-offers", "x" * 63])
def test_names_of_drivers_leave_room_for_what_spark_appends(name: str) -> None:
    query = QueryName(name, "default", "1b4e28ba-2fa1-11d2-883f-0016d3cca427")
    made = pod_name(query, driver("dispatcher"), 9999)
    assert len(made) <= 47, made
    assert len(query.subgroup("0L0")) <= 63
    assert made.startswith(query.id) or len(name) > 22
