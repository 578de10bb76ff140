"""What clients were told of transactions beside what is visible: each broken promise is found."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks.chaos.transactions.journal import Journal, Read, Told, has
from benchmarks.chaos.transactions.plan import TOPICS, Attempt
from benchmarks.chaos.transactions.verdict import Judge, Verdict

Log = list[tuple[str, int, bytes]]
"""Topic, partition and value of what is read."""

ATTEMPTS = [Attempt(number, number // 4, 1) for number in range(7)]
KEPT: Log = [(topic, each.partition, each.value()) for topic in TOPICS for each in ATTEMPTS]


def told(*, committed: list[Attempt] = ATTEMPTS, aborted: list[Attempt] | None = None) -> Read:
    return Read(set(committed), set(aborted or ()))


def judge(log: Log, read: Read) -> Verdict:
    judging = Judge(len(ATTEMPTS))
    for topic, partition, value in log:
        judging.see(topic, partition, value)
    return judging.verdict(read)


def broken(verdict: Verdict) -> dict[str, int]:
    counts = {each.name: getattr(verdict, each.name) for each in fields(verdict)}
    return {name: count for name, count in counts.items() if count and name != "transactions"}


def test_kept_promises() -> None:
    verdict = judge(KEPT, told(aborted=[Attempt(3, 0, 7)]))
    assert broken(verdict) == {}
    assert (verdict.transactions, verdict.broken_promises) == (7, 0)


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([], {"missing": 7}),
        ([each for each in KEPT if each[2] != ATTEMPTS[6].value()], {"missing": 1}),
        (KEPT[1:], {"torn": 1}),
        ([(KEPT[0][0], 0, b"0 9 9"), *KEPT[1:]], {"torn": 1}),
        ([*KEPT, KEPT[6]], {"twice": 1}),
        ([*KEPT, (TOPICS[0], 0, b"0 5 1")], {"twice": 1}),
        ([KEPT[3], KEPT[0], *KEPT[1:3], *KEPT[4:]], {"out_of_order": 1}),
        ([*KEPT, (TOPICS[0], 1, b"0 0 1")], {"altered": 1}),
        ([*KEPT, (TOPICS[0], 1, b"7 0 1"), (TOPICS[0], 1, b"1 0")], {"altered": 2}),
        ([*KEPT, ("elsewhere", 0, b"0 0 1")], {"altered": 1}),
    ],
)
def test_broken_promises_of_the_log(log: Log, expected: dict[str, int]) -> None:
    verdict = judge(log, told(committed=[]))
    assert broken(verdict) == expected
    assert verdict.broken_promises == sum(expected.values())


def test_words_that_were_not_kept() -> None:
    nowhere = Attempt(3, 0, 7)
    verdict = judge(KEPT, told(committed=[*ATTEMPTS, nowhere], aborted=ATTEMPTS[:2]))
    assert broken(verdict) == {"commits_that_were_none": 1, "aborts_that_were_none": 2}
    assert verdict.broken_promises == 3


def test_what_a_client_was_told_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "client.journal"
    assert not has(path, Told.AT_WORK)
    journal = Journal(path)
    journal.write(Told.AT_WORK)
    journal.write(Told.COMMITTED, Attempt(1, 0, 1))
    journal.write(Told.ABORTED, Attempt(2, 0, 2), "SomeError: of two\nlines")
    journal.write(Told.UNKNOWN, Attempt(2, 0, 3), "TimeoutError: ")
    journal.write(Told.FENCED, why="by another")
    read = Read()
    read.add(path)
    assert (read.committed, read.aborted) == ({Attempt(1, 0, 1)}, {Attempt(2, 0, 2)})
    assert read.counts == dict.fromkeys(Told, 1)
    assert read.errors == {"SomeError": 1, "TimeoutError": 1}
    assert has(path, Told.FENCED)


@pytest.mark.parametrize("value", [b"", b"1 2", b"1 2 3 4", b"-1 2 3", b"a 2 3"])
def test_a_value_that_nobody_wrote(value: bytes) -> None:
    assert Attempt.of(value) is None


def test_a_value_says_who_wrote_it() -> None:
    attempt = Attempt(12, 3, 45)
    assert Attempt.of(attempt.value()) == attempt
