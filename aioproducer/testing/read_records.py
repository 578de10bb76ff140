"""Read back the records of topics in tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Final, Unpack

from aioproducer.config import ProducerConfig, ProducerOptions, hide_secrets
from aioproducer.config.reader_options import READER_OPTIONS, ReaderKeywords
from aioproducer.errors import IllegalStateError, ProducerTimeoutError
from aioproducer.foundation.logs import counted, duration
from aioproducer.model import ConsumerRecord, TopicPartition
from aioproducer.reader import Assignment, Position, Reader

__all__ = ["PATIENCE", "ReadOptions", "ReadRecords", "read_back", "read_back_sync"]

PATIENCE: Final = 30.0
"""Seconds for reading back, as long as the caller names no others."""
_COMMITTED: Final = "read_committed"


class ReadOptions(ProducerOptions, ReaderKeywords):
    """The options of a :class:`~aioproducer.reader.Reader` as keywords."""


class ReadRecords(list[ConsumerRecord]):
    """Records that were read back, ordered by topic, partition and offset."""

    def __init__(
        self,
        records: Iterable[ConsumerRecord],
        positions: Mapping[TopicPartition, int],
        isolation_level: str,
    ) -> None:
        super().__init__(sorted(records, key=lambda each: each[:3]))
        self.positions: dict[TopicPartition, int] = dict(positions)
        """The offset where reading ended, by partition."""
        self.isolation_level = isolation_level
        """``read_committed`` or ``read_uncommitted``."""

    @property
    def values(self) -> list[bytes | None]:
        """The value of each record."""
        return [record.value for record in self]

    @property
    def keys(self) -> list[bytes | None]:
        """The key of each record."""
        return [record.key for record in self]


async def read_back(
    assignment: Assignment,
    config: ProducerConfig | None = None,
    /,
    *,
    start: Position = "beginning",
    timeout: float = PATIENCE,
    **options: Unpack[ReadOptions],
) -> ReadRecords:
    """Return the records of a topic, or of partitions, up to its current end.

    ::

        records = await read_back("orders", bootstrap_servers=cluster.bootstrap_servers)
        assert records.values == [b"one espresso"]

    ``assignment``, ``start`` and the options are those of :class:`~aioproducer.reader.Reader`, with
    two different defaults: ``isolation_level="read_committed"``, which hides records of aborted and
    open transactions, and ``check_crcs=False``, because librdkafka's mock cluster writes the ends
    of transactions without a checksum. ``timeout``: seconds for the whole call.

    Raises:
        UnknownTopicOrPartitionError: a topic or partition does not exist.
        ProducerTimeoutError: the end was not reached within ``timeout``.
    """
    hide_secrets_of(options)
    reader = committed_reader(assignment, config, start=start, end="end", options=options)
    records: list[ConsumerRecord] = []
    scope = asyncio.timeout(timeout)
    try:
        async with scope, reader:
            async for batch in reader.batches():
                records.extend(batch)
            return ReadRecords(records, reader.positions, isolation_of(options))
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise ProducerTimeoutError(
            f"{assignment!r:.200} was not read to its end within {duration(timeout)}: "
            f"{counted(len(records), 'record', ',')} read; look at the brokers, or allow more by"
            " timeout="
        ) from error


def read_back_sync(
    assignment: Assignment,
    config: ProducerConfig | None = None,
    /,
    *,
    start: Position = "beginning",
    timeout: float = PATIENCE,
    **options: Unpack[ReadOptions],
) -> ReadRecords:
    """:func:`read_back` for tests without an event loop.

    Raises:
        IllegalStateError: the thread has a running event loop.
    """
    hide_secrets_of(options)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(read_back(assignment, config, start=start, timeout=timeout, **options))
    raise IllegalStateError("an event loop runs in this thread: await read_back() instead")


def hide_secrets_of(options: ReadOptions) -> None:
    """Hide secrets in place: a traceback with the values of its frames then shows none."""
    given: Any = options
    others = {name: given[name] for name in given.keys() - READER_OPTIONS.keys()}
    hide_secrets(others)
    given.update(others)


def committed_reader(
    assignment: Assignment,
    config: ProducerConfig | None,
    *,
    options: ReadOptions,
    start: Position = "beginning",
    end: Position | None = None,
) -> Reader:
    """A reader with the defaults of :func:`read_back`, which ``options`` override."""
    given: Any = {"isolation_level": _COMMITTED, "check_crcs": False, **options}
    return Reader(assignment, config, start=start, end=end, **given)


def isolation_of(options: ReadOptions) -> str:
    """The isolation level of :func:`committed_reader`."""
    return options.get("isolation_level", _COMMITTED)
