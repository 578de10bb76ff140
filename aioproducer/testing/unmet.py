"""The message of an expectation that records do not meet. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aioproducer.foundation.logs import counted
from aioproducer.model import ConsumerRecord
from aioproducer.testing.expected_record import ExpectedRecord, describe
from aioproducer.testing.read_records import ReadRecords

__all__ = ["listed", "nearest", "place", "unmet"]

_SHOWN: Final = 5


def unmet(
    problem: str, records: Sequence[ConsumerRecord], lists: Iterable[str] = ()
) -> AssertionError:
    """The error for ``problem``, with the place that was looked at, and lists of records."""
    return AssertionError("\n".join((problem, f"in {place(records)}", *lists)))


def place(records: Sequence[ConsumerRecord]) -> str:
    """The number of records, and where they are from."""
    count = f"{len(records):,} record{'' if len(records) == 1 else 's'}"
    if not isinstance(records, ReadRecords):
        return count
    partitions = list(records.positions)
    if len(partitions) == 1:
        where = f"{partitions[0]}, read up to offset {records.positions[partitions[0]]}"
    else:
        topics = ", ".join(sorted({each.topic for each in partitions}))
        where = f"{topics}, {counted(len(partitions), 'partition')}"
    hidden = "; those of aborted and open transactions are left out"
    return f"{count} of {where} ({records.isolation_level}{hidden * _hides(records)})"


def _hides(records: ReadRecords) -> bool:
    return records.isolation_level == "read_committed"


def nearest(
    expected: ExpectedRecord, records: Sequence[ConsumerRecord], heading: str = "nearest first:"
) -> list[str]:
    """The records that are most like ``expected``, a line each, with the fields that differ."""
    ranked = sorted(records, key=expected.likeness, reverse=True)
    return listed(heading, ranked, expected)


def listed(
    heading: str, records: Sequence[ConsumerRecord], expected: ExpectedRecord | None = None
) -> list[str]:
    """``heading`` and the first ``records``, a line each; nothing without records."""
    if not records:
        return []
    lines = [heading]
    for record in records[:_SHOWN]:
        differing = expected.differences(record) if expected else []
        other = f"   <- other {', '.join(differing)}" if differing else ""
        lines.append(f"  {describe(record, differing)}{other}")
    if len(records) > _SHOWN:
        lines.append(f"  … and {len(records) - _SHOWN:,} more")
    return lines
