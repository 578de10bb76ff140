"""Scripts of the faults that frames meet: a script as a value, and the state of a run. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from aioproducer.testing.fault_proxy.faults import (
    ClaimLength,
    Corrupt,
    Damage,
    Fault,
    Swallow,
    Way,
)

__all__ = ["FaultScript", "Rule", "ScriptRun"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A fault for frames of one kind, counted over all connections of the proxy.

    "The third produce response": ``Rule(fault, ApiKey.PRODUCE, Way.RESPONSE, after=2)``; "the next
    two of them": ``count=2``; "each with probability p": ``count=None, probability=p``.
    """

    fault: Fault
    api: int | None = None
    """An `ApiKey` or any other of Kafka's numbers. None: of every kind."""
    way: Way = Way.RESPONSE
    after: int = 0
    """The number of frames of the kind that pass unharmed first."""
    count: int | None = 1
    """The number of frames that meet the fault. None: no end."""
    probability: float = 1.0
    """The probability for each frame between the first and the last."""

    def __post_init__(self) -> None:
        if self.after < 0 or (self.count is not None and self.count < 1):
            raise ValueError(f"no frame would ever meet this fault: {self}")
        if not 0.0 <= self.probability <= 1.0:
            raise ValueError(f"a probability is 0 to 1, not {self.probability}")
        if self.way is Way.CONNECTION:
            if self.api is not None:
                raise ValueError(f"a new connection has no API key yet: {self}")
            if isinstance(self.fault, Swallow | Corrupt | ClaimLength | Damage):
                raise ValueError(f"a new connection has no bytes yet: {self}")

    def matches(self, way: Way, api: int | None) -> bool:
        """True if such a frame is counted; `api` is None if it is unknown."""
        return way is self.way and (self.api is None or api == self.api)


@dataclass(frozen=True, slots=True)
class FaultScript:
    """Rules: the first rule that applies to a frame decides; the others do not count the frame."""

    rules: tuple[Rule, ...] = ()
    seed: int = 0
    """The seed of the probabilities and of `ANYWHERE`: the same frames meet the same faults."""


class ScriptRun:
    """A script under way: the state of one proxy."""

    def __init__(self, script: FaultScript) -> None:
        self.random = Random(script.seed)
        self._running: list[_RunningRule] = []
        self.add(*script.rules)

    def add(self, *rules: Rule) -> None:
        """Add rules after the present ones; they count from now on."""
        self._running += [_RunningRule(rule, Random(self.random.random())) for rule in rules]

    def decide(self, way: Way, api: int | None = None) -> Fault | None:
        """The fault that the next frame of this kind meets; None: no fault."""
        decided: Fault | None = None
        for running in self._running:
            if running.rule.matches(way, api):
                applies = running.applies()
                if applies and decided is None:
                    decided = running.rule.fault
                    running.hits += 1
        self._running = [running for running in self._running if not running.finished]
        return decided


@dataclass(slots=True)
class _RunningRule:
    rule: Rule
    random: Random
    """A generator for each rule, independent of the other rules' draws."""
    passed: int = 0
    hits: int = 0

    @property
    def finished(self) -> bool:
        return self.rule.count is not None and self.hits >= self.rule.count

    def applies(self) -> bool:
        if self.passed < self.rule.after:
            self.passed += 1
            return False
        return self.rule.probability == 1.0 or self.random.random() < self.rule.probability
