"""The chaos: its plan comes from the seed, each broken promise is found and reported."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from itertools import islice
from pathlib import Path

import pytest

from aioproducer.testing.fault_proxy import Cut, Reset
from benchmarks.chaos.clients import CLIENTS
from benchmarks.chaos.ledger import Ledger
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
from benchmarks.chaos.run import Outcome
from benchmarks.chaos.verdict import Judge, Verdict

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


Log = list[tuple[int, int, int | None]]
"""Partition, offset and number of what is read."""

KEPT: Log = [(0, 0, 0), (0, 1, 2), (1, 0, 1), (1, 1, 3)]


def all_delivered() -> Ledger:
    ledger = Ledger(4)
    for number, (partition, offset) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
        ledger.deliver(number, partition, offset)
    return ledger


def judge(ledger: Ledger, log: Log) -> Verdict:
    judging = Judge(ledger)
    for partition, offset, number in log:
        judging.see(partition, offset, number)
    return judging.verdict()


def broken(verdict: Verdict) -> dict[str, int]:
    said = {"records", "acknowledged", "failed", "without_place"}
    counts = {each.name: getattr(verdict, each.name) for each in fields(verdict)}
    return {name: count for name, count in counts.items() if count and name not in said}


def test_kept_promises() -> None:
    verdict = judge(all_delivered(), KEPT)
    assert broken(verdict) == {}
    assert (verdict.records, verdict.acknowledged, verdict.broken_promises) == (4, 4, 0)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([(0, 0, 0), (0, 1, 2), (1, 0, 1)], {"missing": 1}),
        ([], {"missing": 4}),
        ([*KEPT, (1, 2, 3)], {"twice": 1}),
        ([*KEPT, (1, 2, 0), (0, 2, 0)], {"twice": 2}),
        ([(0, 0, 2), (0, 1, 0), *KEPT[2:]], {"out_of_order": 1, "elsewhere": 2}),
        ([(0, 0, 0), (0, 2, 2), *KEPT[2:]], {"elsewhere": 1}),
        ([*KEPT, (1, 2, None)], {"altered": 1}),
        ([*KEPT, (1, 2, 4)], {"altered": 1}),
    ],
)
def test_broken_promises(log: Log, expected: dict[str, int]) -> None:
    verdict = judge(all_delivered(), log)
    assert broken(verdict) == expected
    assert verdict.broken_promises == sum(expected.values())


def test_a_failed_record_may_be_there_unless_its_error_says_that_it_is_not() -> None:
    ledger = Ledger(4)
    for number in range(4):
        certain = number >= 2
        ledger.fail(number, "Timeout", f"{number}", may_have_been_written=not certain)
    verdict = judge(ledger, [(0, 0, 0), (0, 1, 2)])
    assert broken(verdict) == {"lied": 1}
    assert (verdict.acknowledged, verdict.failed) == (0, 4)
    assert ledger.errors == {"Timeout": 4}
    assert ledger.examples == {"Timeout": "0"}


def test_a_record_without_outcome_is_a_broken_promise() -> None:
    ledger = all_delivered()
    ledger.fates[3] = 0
    assert broken(judge(ledger, KEPT)) == {"fateless": 1}


def test_no_offset_is_no_promise() -> None:
    ledger = all_delivered()
    ledger.deliver(3, -1, -1)
    verdict = judge(ledger, KEPT)
    assert broken(verdict) == {}
    assert verdict.without_place == 1
    assert broken(judge(ledger, KEPT[:3])) == {"missing": 1}


def test_a_ledger_is_kept_in_a_file(tmp_path: Path) -> None:
    ledger = all_delivered()
    ledger.fail(1, "Timeout", "too late", may_have_been_written=False)
    ledger.seconds = 1.5
    ledger.save(tmp_path / "ledger")
    assert vars(Ledger.load(tmp_path / "ledger")) == vars(ledger)


def outcome(client: str, *, missing: int = 0, lied: int = 0) -> Outcome:
    return Outcome(
        CLIENTS[client],
        Verdict(1000, 998, 2, missing, 0, 0, 0, lied, 0, 0, 0),
        12.34,
        Counter({"DeliveryTimeoutError": 2}),
        {"DeliveryTimeoutError": "chaos-3: too late"},
        Counter({Disturbances.KILL: 3}),
        Counter({Cut: 17}),
    )


@pytest.mark.parametrize(
    ("client", "missing", "broke"),
    [("ours", 0, False), ("ours", 1, True), ("aiokafka", 1, False)],
)
def test_only_our_promises_are_our_word(client: str, missing: int, broke: bool) -> None:
    assert outcome(client, missing=missing).broke_our_word is broke
