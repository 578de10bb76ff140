"""What is sent and what is done to whom comes from the seed, and from nothing else."""

from __future__ import annotations

from itertools import islice

import pytest

from aioproducer.testing.fault_proxy import Cut, Reset
from benchmarks.chaos.plan import (
    BROKERS,
    PARTITIONS,
    Disturbances,
    Load,
    bursts,
    connection_faults,
    disturbances,
    number_of,
    record,
)

OF_BROKERS = [kind for kind in Disturbances if kind is not Disturbances.CUT]


def load(seed: int) -> Load:
    return Load(20_000, seed, 1_000, 3_000, 120_000)


def test_the_same_seed_is_the_same_plan() -> None:
    for plan in (
        lambda seed: list(bursts(load(seed))),
        lambda seed: list(islice(disturbances(seed, 0, OF_BROKERS, 3.0), 50)),
        lambda seed: list(islice(connection_faults(seed, 0.5), 50)),
    ):
        assert plan(1) == plan(1) != plan(2)


def test_lanes_differ() -> None:
    first, second = (list(islice(disturbances(1, lane, OF_BROKERS, 3.0), 9)) for lane in (0, 1))
    assert first != second


def test_bursts_have_every_record_once_and_keep_the_pace() -> None:
    numbers: list[int] = []
    for burst, due in bursts(load(3)):
        assert due == burst.start / 1_000
        numbers += burst
    assert numbers == list(range(20_000))
    assert len({len(burst) for burst, _ in bursts(load(3))}) > 3


def test_every_broker_and_every_kind_has_its_turn() -> None:
    planned = list(islice(disturbances(1, 0, OF_BROKERS, 3.0), 200))
    assert {each.kind for each in planned} == set(OF_BROKERS)
    assert {each.broker for each in planned} == set(range(1, BROKERS + 1))
    assert 2.5 < sum(each.calm for each in planned) / 200 < 3.5
    faults = list(islice(connection_faults(1, 0.5), 200))
    assert {each.broker for each in faults} == set(range(1, BROKERS + 1))
    assert {Cut, Reset} < {type(each.rule.fault) for each in faults}
    assert all(each.rule.count == 1 for each in faults)


def test_records_go_by_partition_by_key_and_by_neither() -> None:
    records = [record(number) for number in range(300)]
    assert {each.partition for each in records} == {None, *range(PARTITIONS)}
    assert all(each.key is None or each.partition is None for each in records)
    assert sum(each.key is None and each.partition is None for each in records) == 100


@pytest.mark.parametrize("number", [0, 1, 9, 123_456, 999_999])
def test_a_value_has_its_number(number: int) -> None:
    assert number_of(record(number).value) == number


@pytest.mark.parametrize("value", [b"", b"x", b"12", record(7).value + b".", b"-1 of chaos "])
def test_altered_values_have_none(value: bytes) -> None:
    assert number_of(value) is None
