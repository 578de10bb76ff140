"""Which frame meets which fault: counts, kinds, probabilities, and the same again by the seed."""

from __future__ import annotations

import pytest

from aioproducer.testing.fault_proxy import (
    ApiKey,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
    Damage,
    Delay,
    Fault,
    FaultScript,
    Reset,
    Rule,
    Swallow,
    Throttle,
    Way,
)
from aioproducer.testing.fault_proxy.faults import ScriptRun

PRODUCE, METADATA = ApiKey.PRODUCE, ApiKey.METADATA
REQUEST, RESPONSE, CONNECTION = Way.REQUEST, Way.RESPONSE, Way.CONNECTION


def decisions(rules: tuple[Rule, ...], frames: int, seed: int = 0) -> list[Fault | None]:
    """Of so many produce responses."""
    run = ScriptRun(FaultScript(rules, seed))
    return [run.decide(RESPONSE, PRODUCE) for _ in range(frames)]


@pytest.mark.parametrize(
    ("rule", "hit"),
    [
        (Rule(Cut()), [0]),
        (Rule(Cut(), after=2), [2]),
        (Rule(Cut(), count=2), [0, 1]),
        (Rule(Cut(), after=1, count=3), [1, 2, 3]),
        (Rule(Cut(), after=4, count=None), [4, 5]),
        (Rule(Cut(), count=None, probability=0.0), []),
        (Rule(Cut(), METADATA, count=None), []),
        (Rule(Cut(), PRODUCE), [0]),
        (Rule(Cut(), way=REQUEST), []),
        (Rule(Cut(), way=CONNECTION), []),
    ],
)
def test_counts_and_kinds(rule: Rule, hit: list[int]) -> None:
    decided = decisions((rule,), 6)
    assert [number for number, fault in enumerate(decided) if fault] == hit


def test_only_frames_of_the_kind_are_counted() -> None:
    run = ScriptRun(FaultScript((Rule(Cut(), PRODUCE, REQUEST, after=1),)))
    assert run.decide(REQUEST, PRODUCE) is None
    assert run.decide(RESPONSE, PRODUCE) is None
    assert run.decide(REQUEST, METADATA) is None
    assert run.decide(REQUEST, None) is None
    assert run.decide(REQUEST, PRODUCE) == Cut()
    assert run.decide(REQUEST, PRODUCE) is None


def test_a_rule_for_every_kind_also_meets_what_nobody_knows() -> None:
    run = ScriptRun(FaultScript((Rule(Cut(), count=2), Rule(Reset(), way=CONNECTION))))
    assert run.decide(RESPONSE, None) == Cut()
    assert run.decide(RESPONSE, 999) == Cut()
    assert run.decide(CONNECTION) == Reset()


def test_the_first_rule_decides_and_the_others_lose_no_turn() -> None:
    rules = (Rule(Cut(), after=1), Rule(Reset(), count=2))
    assert decisions(rules, 4) == [Reset(), Cut(), Reset(), None]


def test_rules_that_are_added_count_from_then_on() -> None:
    run = ScriptRun(FaultScript((Rule(Cut(), after=2),)))
    assert run.decide(RESPONSE, PRODUCE) is None
    run.add(Rule(Reset(), after=2))
    decided = [run.decide(RESPONSE, PRODUCE) for _ in range(3)]
    assert decided == [None, Cut(), Reset()]


def test_probability_is_of_each_frame_and_comes_from_the_seed() -> None:
    rules = (Rule(Cut(), count=None, probability=0.25),)
    first = decisions(rules, 4000, seed=1)
    assert 0.2 < sum(fault is not None for fault in first) / 4000 < 0.3
    assert decisions(rules, 4000, seed=1) == first
    assert decisions(rules, 4000, seed=2) != first


def test_a_rule_draws_for_itself() -> None:
    chance = Rule(Cut(), count=None, probability=0.5)
    alone = decisions((chance,), 50)
    beside = decisions((chance, Rule(Delay(1), count=None, probability=0.5)), 50)
    assert [isinstance(fault, Cut) for fault in beside] == [fault is not None for fault in alone]


@pytest.mark.parametrize(
    "fields",
    [
        {"after": -1},
        {"count": 0},
        {"probability": 1.1},
        {"probability": -0.1},
        {"way": CONNECTION, "api": PRODUCE},
    ],
)
def test_rules_that_nothing_meets_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"no frame|probability|API key"):
        Rule(Cut(), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", [Swallow(), Corrupt(), ClaimLength(), Damage()])
def test_faults_of_bytes_are_none_of_a_connection(fault: Fault) -> None:
    with pytest.raises(ValueError, match="no bytes yet"):
        Rule(fault, way=CONNECTION)
    assert Rule(BlackHole(), way=CONNECTION).matches(CONNECTION, None)


def test_a_rate_is_positive() -> None:
    with pytest.raises(ValueError, match="at least 1 byte"):
        Throttle(0)
