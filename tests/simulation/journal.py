"""What a life has done, and what came of it, for the judge."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aioproducer import RecordMetadata
from aioproducer.model import TopicPartition


@dataclass
class Sent:
    """A record that was passed to a producer, or was refused at the call."""

    number: int
    """The place of its ``send()`` among those of its producer."""
    producer: str
    topic: str
    partition: int | None
    """The partition that the caller named."""
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...]
    at: float
    """The clock's seconds at the call."""
    transaction: Transaction | None = None
    future: asyncio.Future[RecordMetadata] | None = None
    """None: the record has no future of its own (``send_many``), or the call raised."""
    raised: BaseException | None = None
    """The error of the call."""
    until: int | None = None
    """The number of the next record when the ``send_many()`` of this one had returned."""
    bulk: int | None = None
    """The number of the first record of its ``send_many()``; None: it was sent alone."""
    resolved_at: float | None = None
    stopped_at: float = 0.0
    """The seconds for which the process had been stopped or held until the call."""
    stopped_until: float = 0.0
    """The same, until the future was resolved."""
    cancelled: bool = False
    """The caller has cancelled the future."""

    @property
    def size(self) -> int:
        """Bytes of key and value."""
        return len(self.key or b"") + len(self.value)

    @property
    def result(self) -> RecordMetadata | None:
        """The metadata of a delivered record."""
        future = self.future
        if future is None or not future.done() or future.cancelled() or future.exception():
            return None
        return future.result()

    @property
    def error(self) -> BaseException | None:
        """The error of a record that failed."""
        future = self.future
        if future is None or not future.done() or future.cancelled():
            return self.raised
        return future.exception()

    @property
    def name(self) -> str:
        """The record in words."""
        return f"record {self.producer}{self.number}"


@dataclass
class Transaction:
    """A transaction, and how its end was reported."""

    producer: str
    number: int
    began: float
    """The clock's seconds at its beginning."""
    ended: float = 0.0
    outcome: str = "open"
    """committed, aborted, or unknown: the end was not reported."""
    offset: tuple[TopicPartition, int] | None = None
    """The consumed offset that was added to it, if the call has returned."""
    tried_offset: tuple[TopicPartition, int] | None = None
    """The offset whose call was begun."""
    aside: bool = False
    """Another task has added it."""
    refused_offset: BaseException | None = None
    """The error of the call, if another task made it."""


@dataclass
class Call:
    """A call with a bound: a flush, a close, a commit."""

    what: str
    producer: str
    began: float
    ended: float = 0.0
    timeout: float | None = None
    stopped: float = 0.0
    """Seconds for which the process was stopped or held meanwhile."""
    error: BaseException | None = None
    unresolved: int = 0
    """After a flush: the records that were sent before it and have no outcome."""


@dataclass
class Journal:
    """Everything that happened in a life."""

    sent: list[Sent] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    bulk_reports: list[tuple[list[Sent], Any]] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)
    """The records that the Reader has returned, in order."""
    read_errors: list[Exception] = field(default_factory=list)
    """The errors that the Reader has raised."""
    read_back: dict[str, list[Any]] = field(default_factory=dict)
    """The records of all partitions at the end, by isolation level."""
    most_undelivered: Counter[str] = field(default_factory=Counter)
    """The most bytes of keys and values that ever were without an outcome, by producer."""
    closed: set[str] = field(default_factory=set)
    """The producers that were closed in the midst of it all."""
    left: set[str] = field(default_factory=set)
    """The producers that were closed without a timeout, as leaving ``async with`` does."""
    taken: dict[str, float] = field(default_factory=dict)
    """The clock's seconds at which another producer had the transactional id of this one."""
    kept: list[tuple[str, bytes]] = field(default_factory=list)
    """The producer and the value of each record that ``on_failed`` got."""
    violations: list[str] = field(default_factory=list)
    """Broken promises that were seen at once."""

    def broken(self, promise: str, how: str) -> None:
        """Note a broken promise."""
        self.violations.append(f"{promise}: {how}")
