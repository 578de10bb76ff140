"""The faults of a proxy: which frame meets which, and what becomes of its bytes."""

from __future__ import annotations

from random import Random

import pytest

from aioproducer.testing.fault_proxy import (
    ANYWHERE,
    END,
    ApiKey,
    BlackHole,
    ClaimLength,
    Corrupt,
    Cut,
    Damage,
    Delay,
    Fault,
    FaultScript,
    HalfClose,
    NotKafkaError,
    Reset,
    Rule,
    Swallow,
    Throttle,
    Way,
)
from aioproducer.testing.fault_proxy.faults import (
    Correlations,
    End,
    GoDark,
    Pace,
    Pass,
    ScriptRun,
    ShutDown,
    Step,
    Wait,
    frame_length,
    steps,
)

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


FRAME = b"\0\0\0\6" + b"abcdef"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (None, [Pass(FRAME)]),
        (Cut(), [Pass(b""), End(reset=False)]),
        (Cut(6), [Pass(b"\0\0\0\6ab"), End(reset=False)]),
        (Cut(END), [Pass(FRAME), End(reset=False)]),
        (Reset(3), [Pass(b"\0\0\0"), End(reset=True)]),
        (Delay(0.5), [Pass(b""), Wait(0.5), Pass(FRAME)]),
        (Delay(0.5, 4), [Pass(b"\0\0\0\6"), Wait(0.5), Pass(b"abcdef")]),
        (Throttle(100), [Pace(100), Pass(FRAME)]),
        (HalfClose(), [Pass(FRAME), ShutDown()]),
        (HalfClose(0), [Pass(b""), ShutDown()]),
        (BlackHole(), [GoDark()]),
        (Swallow(), []),
        (Corrupt(), [Pass(b"\0\0\0\6\x9ebcdef")]),
        (Corrupt(8, 5), [Pass(b"\0\0\0\6abcd\x9a\x99")]),
        (Corrupt(END), [Pass(FRAME)]),
        (ClaimLength(), [Pass(b"\x7f\xff\xff\xffabcdef")]),
        (ClaimLength(-1), [Pass(b"\xff\xff\xff\xffabcdef")]),
    ],
)
def test_steps(fault: Fault | None, expected: list[Step]) -> None:
    assert list(steps(fault, FRAME, Random(0))) == expected


def test_anywhere_is_everywhere_and_comes_from_the_seed() -> None:
    def positions(seed: int) -> list[int]:
        random = Random(seed)
        passed = [steps(Cut(ANYWHERE), FRAME, random)[0] for _ in range(200)]
        return [len(each.data) for each in passed if isinstance(each, Pass)]

    assert set(positions(1)) == set(range(len(FRAME) + 1))
    assert positions(1) == positions(1) != positions(2)


def request(api: int, correlation_id: int) -> bytes:
    header = api.to_bytes(2, "big") + b"\0\7" + correlation_id.to_bytes(4, "big")
    return len(header).to_bytes(4, "big") + header


def response(correlation_id: int) -> bytes:
    return b"\0\0\0\4" + correlation_id.to_bytes(4, "big")


def test_a_response_has_the_kind_of_its_request() -> None:
    correlations = Correlations()
    assert [correlations.request(request(api, number)) for api, number in ((18, 1), (0, 2))] == [
        18,
        0,
    ]
    assert correlations.response(response(2)) == 0
    assert correlations.response(response(1)) == 18
    assert correlations.response(response(1)) is None
    assert correlations.response(response(7)) is None


def test_a_request_too_short_for_a_header_is_of_no_kind() -> None:
    assert Correlations().request(b"\0\0\0\4\0\0\0\0") is None


@pytest.mark.parametrize("prefix", [b"HTTP", b"\xff\xff\xff\xff", b"\0\0\0\3", b"\x06\x40\0\1"])
def test_lengths_that_are_none(prefix: bytes) -> None:
    with pytest.raises(NotKafkaError, match="bytes"):
        frame_length(prefix)


def test_lengths() -> None:
    assert frame_length(b"\0\0\0\4") == 4
    assert frame_length(b"\x06\x40\0\0") == 100 * 1024 * 1024


def test_damage_is_of_every_kind_and_the_length_stays_right() -> None:
    frame = b"\0\0\0\x40" + bytes(range(1, 65))
    seen = set()
    for seed in range(300):
        (passed,) = steps(Damage(), frame, Random(seed))
        assert isinstance(passed, Pass)
        assert frame_length(passed.data[:4]) == len(passed.data) - 4
        assert steps(Damage(), frame, Random(seed)) == (passed,), "a seed gives it again"
        seen.add(passed.data)
    assert len(seen) > 200
    assert {len(data) < len(frame) for data in seen} == {True, False}
    assert any(len(data) > len(frame) for data in seen)
    assert any(b"\x7f\xff\xff\xff\xff" in data for data in seen), "huge numbers"
    more = [steps(Damage(changes=5), frame, Random(seed)) for seed in range(50)]
    assert len({str(each) for each in more}) == 50
