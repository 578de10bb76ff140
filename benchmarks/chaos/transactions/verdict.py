"""What the clients were told, beside what consumers of committed records see. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.chaos.transactions.journal import Read
from benchmarks.chaos.transactions.plan import TOPICS, Attempt


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of transactions; all but the first must be zero."""

    transactions: int
    missing: int
    """In no topic."""
    torn: int
    """Not in every topic, or not by the same attempt."""
    twice: int
    """Records beyond the first of their number, in any topic."""
    out_of_order: int
    """Records behind one of the same partition with a higher number."""
    altered: int
    """Records that nobody wrote, or not to that place."""
    commits_that_were_none: int
    """A client was told that it is committed, and it is not there."""
    aborts_that_were_none: int
    """A client was told that it is aborted, and it is there."""

    @property
    def broken_promises(self) -> int:
        """What must be zero."""
        return (
            self.missing
            + self.torn
            + self.twice
            + self.out_of_order
            + self.altered
            + self.commits_that_were_none
            + self.aborts_that_were_none
        )


class Judge:
    """Is shown every visible record, each partition in the order of its offsets."""

    def __init__(self, transactions: int) -> None:
        self._transactions = transactions
        self._seen: dict[str, dict[int, Attempt]] = {topic: {} for topic in TOPICS}
        self._latest: dict[tuple[str, int], int] = {}
        self._twice = self._out_of_order = self._altered = 0

    def see(self, topic: str, partition: int, value: bytes) -> None:
        attempt = Attempt.of(value)
        if (
            attempt is None
            or attempt.number >= self._transactions
            or attempt.partition != partition
            or topic not in self._seen
        ):
            self._altered += 1
            return
        if attempt.number in self._seen[topic]:
            self._twice += 1
            return
        self._seen[topic][attempt.number] = attempt
        latest = self._latest.get((topic, partition), -1)
        self._out_of_order += attempt.number < latest
        self._latest[topic, partition] = max(attempt.number, latest)

    def verdict(self, told: Read) -> Verdict:
        missing = torn = 0
        for number in range(self._transactions):
            by = [seen.get(number) for seen in self._seen.values()]
            if by == [None] * len(by):
                missing += 1
            elif len(set(by)) > 1:
                torn += 1
        visible = {attempt for seen in self._seen.values() for attempt in seen.values()}
        return Verdict(
            transactions=self._transactions,
            missing=missing,
            torn=torn,
            twice=self._twice,
            out_of_order=self._out_of_order,
            altered=self._altered,
            commits_that_were_none=len(told.committed - visible),
            aborts_that_were_none=len(told.aborted & visible),
        )
