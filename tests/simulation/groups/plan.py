"""What happens in the life of a group, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from tests.simulation.knobs import drawn_knobs

MODES: Final = ("loop", "lists", "batches", "run", "run by key", "run freely")
STRATEGIES: Final = ("range", "roundrobin", "sticky", "cooperative-sticky")
PLAYTIME: Final = 120.0
"""Seconds in which members come and go, and things go wrong."""
PLAIN: Final = range(4_000)
"""The seeds of lives with the usual numbers and without records that hang: those in which the known
faults were found first."""
SETTLED: Final = range(5_000)
"""The seeds of lives whose members keep their topics and their positions."""
LEDGER: Final = "ledger"
SECOND: Final = "second"
SUBSCRIPTIONS: Final = ((LEDGER,), (SECOND,), (LEDGER, SECOND))
_HANGS: Final = 0.25
_FIRST_RECORDS: Final = 20
_CHOOSES: Final = 0.5
"""The part of lives in which members choose their protocol."""
POLICIES: Final = ("bidirectional", "upgrade", "downgrade", "disabled")


@dataclass(frozen=True)
class MemberPlan:
    """One member. Times are seconds from the beginning of the life."""

    name: str
    begins: float
    ends: float | None
    """None: it stays until everything is read."""
    way: str
    """How it ends: ``close`` and ``cancel`` say farewell, ``vanish`` does not."""
    mode: str
    work: float
    """Seconds for a record."""
    instance: str | None
    fails_at: int | None
    """Its handler raises at this record, the first time."""
    protocol: str | None
    """None: it chooses."""


@dataclass(frozen=True)
class Call:
    """A call of a member's consumer at a time."""

    at: float
    member: str
    topics: tuple[str, ...] = ()
    """The topics to subscribe to; none: it seeks the committed offset of one of its partitions."""
    which: float = 0.0
    """The partition, as a part of those that it has."""


@dataclass(frozen=True)
class GroupPlan:
    """A life."""

    seed: int
    brokers: int
    partitions: int
    records: int
    strategy: str
    """Of members that are classic because they have to be."""
    transactional: bool
    members: tuple[MemberPlan, ...]
    faults: tuple[tuple[float, str, tuple[Any, ...]], ...]
    hangs_at: int | None = None
    """Handlers hang at this record, the first two times."""
    policy: str = "bidirectional"
    """Whether a group with members goes over to the other protocol."""
    knobs: dict[str, float] = field(default_factory=dict)
    """The engine's numbers that are not as usual (:mod:`tests.simulation.knobs`)."""
    calls: tuple[Call, ...] = ()

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the ledger."""
        return SUBSCRIPTIONS[-1] if self.calls else (LEDGER,)

    @property
    def is_calm(self) -> bool:
        """True if nothing happens after which records may come again."""
        return (
            not self.faults
            and self.hangs_at is None
            and all(each.way == "close" and each.fails_at is None for each in self.members)
            and not any(self._repeats(each) for each in self.calls)
        )

    def _repeats(self, call: Call) -> bool:
        """True if records may come again after a call: those that were not committed, or were
        handled before others of a topic that is dropped."""
        modes = {each.mode for each in self.members if each.name == call.member}
        return not call.topics or not modes <= {"loop", "lists", "batches", "run", "by call"}


def make_plan(seed: int) -> GroupPlan:
    """The plan of a seed."""
    random = Random(f"{seed} group")
    brokers = random.choice((1, 3, 3))
    transactional = random.random() < 0.25
    partitions = random.randint(1, 8)
    calm = random.random() < 0.2
    count = random.randint(1, 4)
    drawn = [
        _member(random, f"m{number}", number == 0, transactional, calm) for number in range(count)
    ]
    faults = () if calm else tuple(sorted(_faults(random, brokers, partitions)))
    more = Random(f"{seed} more")
    hangs = seed not in PLAIN and not transactional and more.random() < _HANGS
    tuned = seed not in PLAIN and more.random() < 0.5
    records = random.choice((20, 200, 600))
    drawn, calls = _calls(seed, drawn, transactional)
    protocols, policy = _protocols(seed, random.choice(("classic", "classic", "consumer")), count)
    return GroupPlan(
        seed,
        brokers,
        partitions,
        records,
        random.choice(STRATEGIES),
        transactional,
        tuple(map(_with_protocol, drawn, protocols)),
        faults,
        more.randrange(_FIRST_RECORDS) if hangs else None,
        policy,
        drawn_knobs(more) if tuned else {},
        calls,
    )


def _calls(
    seed: int, members: list[MemberPlan], transactional: bool
) -> tuple[list[MemberPlan], tuple[Call, ...]]:
    """The members of a life with calls, of which more stay to its end, and the calls.

    The first one, which stays, wants all topics in the end.
    """
    random = Random(f"{seed} calls")
    if seed in SETTLED or random.random() < 1 / 3:
        return members, ()
    calls = [Call(PLAYTIME * 0.9, members[0].name, SUBSCRIPTIONS[-1])]
    for number, each in enumerate(members):
        if random.random() < 0.5:
            each = replace(each, ends=None)
        if not transactional and random.random() < 0.3:
            each = replace(each, mode=random.choice(("by call", "singly", "singly")))
        members[number] = each
        for _ in range(random.randint(0, 4)):
            at = random.uniform(0, PLAYTIME * 0.8)
            if transactional or random.random() < 0.6:
                calls.append(Call(at, each.name, random.choice(SUBSCRIPTIONS)))
            else:
                calls.append(Call(at, each.name, (), random.random()))
    return members, tuple(sorted(calls, key=lambda each: each.at))


def _protocols(seed: int, protocol: str, count: int) -> tuple[list[str | None], str]:
    """The protocols of the members, and the policy of the brokers.

    Members that choose get along with any policy; those whose protocol is set need one that lets
    them come to a group of the other one.
    """
    random = Random(f"{seed} protocols")
    if seed in PLAIN or random.random() >= _CHOOSES:
        return [protocol] * count, POLICIES[0]
    if random.random() < 0.5:
        return [None] * count, random.choice(POLICIES)
    return [random.choice((None, None, "classic", "consumer")) for _ in range(count)], POLICIES[0]


def _with_protocol(member: MemberPlan, protocol: str | None) -> MemberPlan:
    return replace(member, protocol=protocol)


def _member(random: Random, name: str, stays: bool, transactional: bool, calm: bool) -> MemberPlan:
    begins = random.uniform(0, PLAYTIME / 2)
    ends = None if stays else begins + random.uniform(0.1, PLAYTIME / 2)
    return MemberPlan(
        name,
        0.0 if stays and random.random() < 0.7 else begins,
        ends,
        "close" if calm else random.choice(("close", "close", "cancel", "vanish")),
        "transactions" if transactional else random.choice(MODES),
        random.choice((0.0, 0.001, 0.01, 0.1)),
        name if random.random() < 0.2 else None,
        random.randrange(20) if not calm and random.random() < 0.2 else None,
        None,
    )


def _faults(
    random: Random, brokers: int, partitions: int
) -> list[tuple[float, str, tuple[Any, ...]]]:
    kinds = ["cut", "stall", "freeze", "lose", "slow"]
    if brokers > 1:
        kinds += ["crash", "move", "coordinator", "coordinator"]
    found = []
    for _ in range(random.randint(1, 6)):
        at = random.uniform(0, PLAYTIME)
        kind = random.choice(kinds)
        broker = random.randint(1, brokers)
        arguments: tuple[Any, ...]
        match kind:
            case "cut":
                arguments = (broker,)
            case "stall" | "crash":
                arguments = (broker, random.choice((1.0, 5.0, 20.0, 60.0)))
            case "freeze":
                arguments = (random.choice((0.5, 5.0, 15.0, 60.0)),)
            case "lose":
                arguments = (random.choice((1, 8, 9, 11, 12, 14, 68)), random.randint(1, 3))
            case "slow":
                arguments = (random.choice((0.05, 0.5, 2.0)), random.uniform(5, 30))
            case "move":
                arguments = (random.randrange(partitions), broker)
            case _:
                arguments = (broker,)
        found.append((at, kind, arguments))
    return found
