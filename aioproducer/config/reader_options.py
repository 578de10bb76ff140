"""The options of a reader, in addition to those of its connections.

Names, defaults and ranges are those of ``org.apache.kafka.clients.consumer.ConsumerConfig`` in
Kafka 4.3; ``kafka_default`` marks where a default differs and the meaning says why.
"""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypedDict

from aioproducer.config.kinds import INT_MAX, Boolean, Bytes, Choice, Milliseconds, OffsetResets
from aioproducer.config.options import Group, Importance, option, options_of

__all__ = ["READER_OPTIONS", "IsolationOption", "OffsetReset", "ReaderKeywords", "ReaderOptions"]

IsolationOption = Literal["read_uncommitted", "read_committed"]
_NamedReset = Literal["none", "earliest", "latest"]
OffsetReset: TypeAlias = _NamedReset | str

HIGH, MEDIUM = Importance.HIGH, Importance.MEDIUM


class ReaderKeywords(TypedDict, total=False):
    """The options as keywords."""

    isolation_level: IsolationOption
    auto_offset_reset: OffsetReset
    read_ahead_bytes: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    check_crcs: bool
    max_batch_bytes: int


@dataclass(frozen=True, slots=True, init=False)
class ReaderOptions:
    """The options with their defaults.

    Raises:
        ConfigError: a value is of the wrong type or out of range.
    """

    isolation_level: IsolationOption = option(
        Choice(IsolationOption), "read_uncommitted", Group.READING, MEDIUM
    )
    """`read_committed` skips the records of aborted transactions, and waits until open transactions
    end."""

    auto_offset_reset: OffsetReset = option(
        OffsetResets(_NamedReset), "none", Group.READING, MEDIUM, kafka_default="latest"
    )
    """Where to continue if the log no longer contains the position. `none` raises an error, because
    a jump loses records and the application should know. `by_duration:PT1H` continues with the
    records of the last hour (KIP-1106)."""

    read_ahead_bytes: int = option(Bytes(1, INT_MAX), 16 * 1024 * 1024, Group.READING, MEDIUM)
    """The maximum memory for fetched batches that the application has not taken yet, for all
    partitions together: their size as sent, and about 600 bytes per batch. A batch larger than the
    remaining memory is still fetched whole."""

    fetch_max_bytes: int = option(Bytes(0, INT_MAX), 52428800, Group.READING, MEDIUM)
    """The maximum size of a response. A smaller `read_ahead_bytes` lowers it."""

    max_partition_fetch_bytes: int = option(Bytes(0, INT_MAX), 1048576, Group.READING, HIGH)
    """The maximum size of a partition's data in a response. If the first batch is larger, it is
    still returned whole."""

    fetch_min_bytes: int = option(Bytes(0, INT_MAX), 1, Group.READING, HIGH)
    """The number of bytes that a broker collects before it responds."""

    fetch_max_wait_ms: int = option(Milliseconds(0, INT_MAX), 500, Group.READING)
    """How long a broker waits for `fetch_min_bytes`; less than `request_timeout_ms`."""

    check_crcs: bool = option(Boolean(), True, Group.READING)
    """Verify the checksum of every batch."""

    max_batch_bytes: int = option(Bytes(1, INT_MAX), 64 * 1024 * 1024, Group.READING)
    """The maximum decompressed size of a batch. A larger batch is an error: otherwise a few damaged
    or malicious bytes could decompress to any size."""

    def __init__(self, **given: Any) -> None:
        for name, row in READER_OPTIONS.items():  # first, so that repr() works in a traceback
            object.__setattr__(self, name, row.default)
        for name in filter(given.__contains__, READER_OPTIONS):
            object.__setattr__(self, name, READER_OPTIONS[name].accept(given[name]))


READER_OPTIONS: Final = options_of(ReaderOptions)
