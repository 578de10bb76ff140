"""The routes of records: from topic, key and partition to the open batch that a record may join.

A record that no open batch takes begins one (:meth:`RecordAccumulator.begin`), or waits.

This module is the reference; ``_speedups.pyx`` is its compiled form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aioproducer.engine.partitioning import STICKY, route
from aioproducer.engine.records.builder import TIMESTAMPS_END, RecordsBuilder
from aioproducer.engine.records.entry_token import EntryToken

ENTRY: Final = 10
"""The places of a list that an entry takes: a token, the fields of its record (topic, value, key,
partition, headers, timestamp in ms or None, time of the ``send()`` in ns), and two more for its
sender.

A record whose token is no :class:`EntryToken` does not take the fast path.
"""

_PENDING: Final = "PENDING"
_RUNNING: Final = "RUNNING"


class OpenBuilders:
    """The builders that records of one topic may join."""

    __slots__ = ("partitions", "sticky")

    def __init__(self) -> None:
        self.sticky = -1
        """The number of the sticky partition; -1: it is not chosen."""
        self.partitions: list[RecordsBuilder | None] = []
        """The builder of the open batch of each partition; :class:`Partition` sets it."""


class Routes:
    """Finds the open builder for a record."""

    __slots__ = ("came", "ignore_keys", "is_open", "last", "topics")

    def __init__(self, *, ignore_keys: bool = False) -> None:
        self.ignore_keys = ignore_keys
        """Keyed records go where keyless ones do."""
        self.is_open = True
        """False: no record takes the fast path."""
        self.topics: dict[str, OpenBuilders] = {}
        self.last: RecordsBuilder | None = None
        """The builder of the record that was sent last; None: it is in no batch yet."""
        self.came = 0
        """The records that came one by one on the event loop, not in slices or from threads."""

    def append(
        self,
        token: Any,
        sent_ns: int,
        timestamp_ms: int | None,
        topic: Any,
        value: Any,
        key: Any,
        partition: Any,
    ) -> int:
        """Append a record without headers; its size in bytes, or 0.

        ``sent_ns``: the time of its ``send()``, which is its timestamp as well if it has none.
        """
        builder = self.find(topic, value, key, partition)
        if builder is None:
            return 0
        if timestamp_ms is None:
            timestamp_ms = sent_ns // 1_000_000
        return builder.append(token, timestamp_ms, key, value, (), sent_ns)

    def append_entries(self, entries: Sequence[Any], start: int, stop: int) -> int:
        """Append the records of entries ``start`` to ``stop - 1``, whose tokens become running.

        The call ends at the first record that has headers, a token that is not pending, or no fast
        path; it returns the number of records before that.
        """
        for place in range(start, stop):
            entry = entries[place * ENTRY : (place + 1) * ENTRY]
            token, topic, value, key, partition, headers, timestamp_ms, sent_ns, *_ = entry
            if (
                not isinstance(token, EntryToken)
                or headers is not None
                or not _is_time(sent_ns)
                or not (timestamp_ms is None or _is_time(timestamp_ms))
                or token._state != _PENDING
            ):
                return place - start
            token._state = _RUNNING  # no call since the look: no other thread cancels it
            if not self.append(token, sent_ns, timestamp_ms, topic, value, key, partition):
                token._state = _PENDING
                return place - start
        return max(0, stop - start)

    def takes(self, topic: Any, value: Any, key: Any, partition: Any) -> bool:
        """True if a record may take the fast path: it has its bytes, and its topic is known."""
        return (
            self.is_open
            and type(topic) is str
            and (value is None or type(value) is bytes)
            and (key is None or type(key) is bytes)
            and (partition is None or type(partition) is int)
            and topic in self.topics
        )

    def find(self, topic: Any, value: Any, key: Any, partition: Any) -> RecordsBuilder | None:
        """The open builder for a record; None: there is none, or the fast path takes no such."""
        if not self.takes(topic, value, key, partition):
            return None
        builders = self.topics[topic]
        return self.open_in(builders, self.route(builders, key, partition))

    def route(self, builders: OpenBuilders, key: bytes | None, partition: int | None) -> int:
        """The number of a record's partition, ``STICKY`` or ``UNKNOWN``."""
        return route(key, partition, len(builders.partitions), ignore_keys=self.ignore_keys)

    def open_in(self, builders: OpenBuilders, number: int) -> RecordsBuilder | None:
        """The open builder for a record that is sent now, by its :meth:`route`; None: none.

        It becomes :attr:`last`.
        """
        if number == STICKY:
            number = builders.sticky
        builder = builders.partitions[number] if number >= 0 else None
        if builder is not None:
            self.last = builder
        return builder


def _is_time(number: object) -> bool:
    return type(number) is int and 0 <= number < TIMESTAMPS_END
