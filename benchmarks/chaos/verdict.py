"""What a client said, beside what is in the logs. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.chaos.ledger import NOWHERE, Fate, Ledger


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of records."""

    records: int
    acknowledged: int
    failed: int
    missing: int
    """Acknowledged, and in no log."""
    twice: int
    """Copies of records beyond the first."""
    out_of_order: int
    """Behind a record of the same partition that was sent later."""
    elsewhere: int
    """Acknowledged, and not in the log at the place that was promised."""
    lied: int
    """In a log, though the error said that it was not written."""
    altered: int
    """In a log, and not as they were sent."""
    fateless: int
    """Neither acknowledged nor failed, or not even sent, within the time."""
    without_place: int
    """Acknowledged without an offset: no promise, and so none broken."""

    @property
    def broken_promises(self) -> int:
        """What must be zero."""
        return (
            self.missing
            + self.twice
            + self.out_of_order
            + self.elsewhere
            + self.lied
            + self.altered
            + self.fateless
        )


class Judge:
    """Is shown every record of every log, each partition in the order of its offsets."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._seen = bytearray(len(ledger))
        self._in_place = bytearray(len(ledger))
        self._latest: dict[int, int] = {}
        self._twice = self._out_of_order = self._altered = 0

    def see(self, partition: int, offset: int, number: int | None) -> None:
        """`number` is None for a record that nobody sent."""
        ledger = self._ledger
        if number is None or number >= len(ledger):
            self._altered += 1
            return
        if ledger.offsets[number] == offset and ledger.partitions[number] == partition:
            self._in_place[number] = True
        if self._seen[number]:
            self._twice += 1
            return
        self._seen[number] = True
        latest = self._latest.get(partition, -1)
        self._out_of_order += number < latest
        self._latest[partition] = max(number, latest)

    def verdict(self) -> Verdict:
        ledger = self._ledger
        delivered = [number for number, fate in enumerate(ledger.fates) if fate == Fate.DELIVERED]
        promised = [number for number in delivered if ledger.offsets[number] > NOWHERE]
        missing = sum(not self._seen[number] for number in delivered)
        return Verdict(
            records=len(ledger),
            acknowledged=len(delivered),
            failed=ledger.count(Fate.FAILED, Fate.NOT_WRITTEN),
            missing=missing,
            twice=self._twice,
            out_of_order=self._out_of_order,
            elsewhere=sum(self._seen[number] and not self._in_place[number] for number in promised),
            lied=sum(
                seen and fate == Fate.NOT_WRITTEN
                for seen, fate in zip(self._seen, ledger.fates, strict=True)
            ),
            altered=self._altered,
            fateless=ledger.count(Fate.NONE),
            without_place=len(delivered) - len(promised),
        )
