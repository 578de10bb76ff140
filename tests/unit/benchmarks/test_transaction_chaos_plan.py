"""What a transaction writes, and what is done to clients."""

from __future__ import annotations

from itertools import islice

from benchmarks.chaos.plan import connection_faults
from benchmarks.chaos.transactions.plan import (
    FAULTY_APIS,
    Attempt,
    Replacements,
    Style,
    is_shared,
    replacements,
    style,
)


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
