"""What a client said beside what is in the logs: each kind of broken promise is found."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.chaos.ledger import Ledger
from benchmarks.chaos.verdict import Judge, Verdict

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
