"""The chaos of transactions: what is written, what is done to clients, and each broken promise."""

from __future__ import annotations

from dataclasses import fields
from itertools import islice
from pathlib import Path

import pytest

from benchmarks.chaos.plan import connection_faults
from benchmarks.chaos.transactions.journal import Journal, Read, Told, has
from benchmarks.chaos.transactions.plan import (
    FAULTY_APIS,
    TOPICS,
    Attempt,
    Replacements,
    Style,
    is_shared,
    replacements,
    style,
)
from benchmarks.chaos.transactions.verdict import Judge, Verdict


def test_the_same_seed_is_the_same_plan() -> None:
    for plan in (
        lambda seed: list(islice(replacements(seed, 4.0), 50)),
        lambda seed: list(islice(connection_faults(seed, 0.5, FAULTY_APIS), 50)),
    ):
        assert plan(1) == plan(1) != plan(2)


def test_every_kind_has_its_turn() -> None:
    planned = list(islice(replacements(1, 4.0), 300))
    assert {each.kind for each in planned} == set(Replacements)
    assert 3.5 < sum(each.calm for each in planned) / 300 < 4.5
    assert {style(Attempt(number, 0, 1)) for number in range(7)} == set(Style)
    assert {style(Attempt(0, 0, attempt)) for attempt in range(7)} == set(Style)
    faults = list(islice(connection_faults(1, 0.5, FAULTY_APIS), 300))
    assert {each.rule.api for each in faults} == set(FAULTY_APIS)


def test_transactions_of_every_style_are_shared_and_are_not() -> None:
    """A client's attempts and the numbers of its transactions go up together."""
    kinds = {(style(each), is_shared(each)) for each in (Attempt(n, 0, n + 1) for n in range(14))}
    assert kinds == {(kind, shared) for kind in Style for shared in (False, True)}


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
