"""The report of a write: the number of records and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aioproducer.engine.bulk.send_report import OffsetRange
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition


@dataclass(frozen=True, slots=True)
class WriteReport:
    """The records of a task, or of several. It pickles."""

    records: int = 0
    ranges: Mapping[TopicPartition, OffsetRange] = field(default_factory=dict)
    """First and last offset by Kafka partition. Records of other producers can be in between."""

    @classmethod
    def of(cls, reports: Iterable[WriteReport]) -> WriteReport:
        """The sum of ``reports``."""
        records = 0
        ranges: dict[TopicPartition, OffsetRange] = {}
        for report in reports:
            records += report.records
            for place, there in report.ranges.items():
                known = ranges.get(place)
                ranges[place] = there if known is None else _joined(known, there)
        return cls(records, ranges)

    def __str__(self) -> str:
        places = ", ".join(
            f"{place} from {there.first} to {there.last}"
            for place, there in sorted(self.ranges.items())
        )
        return f"{counted(self.records, 'record', ',')} written" + (
            f" ({places})" if places else ""
        )


def _joined(one: OffsetRange, other: OffsetRange) -> OffsetRange:
    return OffsetRange(
        min(one.first, other.first), max(one.last, other.last), one.count + other.count
    )
