"""A batch: records for one partition that share one outcome; its size, and its split.

The size grows under load if ``batch_size`` is None (KIP-782 proposes it for Java).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum, auto
from typing import Any, Final, NamedTuple

from aioproducer.config import ADAPTIVE_LINGER_MS, ProducerConfig
from aioproducer.engine.accumulator.pending_records import SerializedRecord
from aioproducer.engine.observer import tell_partition
from aioproducer.engine.records.acceleration import (
    RecordsBuilder,
    batch_size_bound,
    fail_record,
    show,
)
from aioproducer.engine.records.batch_header import BATCH_OVERHEAD
from aioproducer.engine.records.builder import (
    NO_PRODUCER_STATE,
    ProducerState,
    compress_records,
    next_sequence,
    sent_times,
)
from aioproducer.engine.records.bulk_tokens import tokens_by_record
from aioproducer.engine.records.compression import Compression
from aioproducer.engine.records.field_reader import read_records
from aioproducer.errors import ProducerError, RecordTooLargeError, Written
from aioproducer.foundation import tuning
from aioproducer.model import BatchOrder, BigInt, TopicPartition


class BatchGrowth:
    """The size of the next batch of a partition, or of a topic's keyless records.

    A batch that was full before it could leave doubles the size, unless it had many records. A
    batch that leaves mostly empty halves it. So a lone record gets a small batch, and load makes
    large ones.

    A distant broker gets the largest ones, whatever number of records they have: its throughput is
    the size of a request, times the requests in flight, divided by the time of a response.
    """

    __slots__ = ("doublings",)

    def __init__(self) -> None:
        self.doublings = 0
        """The size is the smallest one, doubled so often."""

    def filled(self, records: int, most: int, short: bool) -> None:
        """A batch was full of ``records`` before it left; ``most``: the most doublings.

        ``short``: requests are too small, see :meth:`Backlog.is_short`.
        """
        if self.doublings < most and (short or records < tuning.GROWS_BELOW_RECORDS):
            self.doublings += 1

    def left(self, size: int, capacity: int) -> None:
        """A batch with room for ``capacity`` bytes left with ``size`` bytes."""
        if self.doublings and size * tuning.MOSTLY_EMPTY_PART < capacity:
            self.doublings -= 1


class AccumulatorSettings(NamedTuple):
    """Sizes are bytes, times are seconds."""

    memory: int
    """The memory of all batches."""
    pending_memory: int
    """The memory of all pending records."""
    kept_memory: int
    """The bytes of batch memory that must stay free while pending records borrow."""
    batch_size: int
    """The size of every batch; if batches grow, the size of the smallest."""
    max_request_size: int
    linger: float | None
    """None: adaptive."""
    adaptive_linger: float
    """The longest linger of a batch while its broker is busy, if ``linger`` is None."""
    delivery_timeout: float
    max_block: float
    """The time that a record may wait for a batch: ``max_block_ms``, and not longer than
    ``delivery_timeout_ms``, since it has its future already."""
    retries: int = 2**31 - 1
    """The attempts of a batch after its first one."""
    one_at_a_time: bool = False
    """At most one batch of a partition is in flight: order without sequence numbers."""
    in_order: bool = True
    """Retries leave in their first order (they carry sequence numbers)."""
    ignore_keys: bool = False
    """Keyed records go to the sticky partition, like keyless ones."""
    adaptive_partitioning: bool = True
    """Keyless records go less often to partitions with more waiting batches."""
    availability_timeout: float | None = None
    """Seconds without a taken batch after which keyless records avoid a node; None: never."""
    is_near: Callable[[int], bool] | None = None
    """Keyless records prefer the nodes for which it returns True; None: all are alike."""
    most_doublings: int = 0
    """The number of times that ``batch_size`` may double under load."""

    @property
    def largest_batch(self) -> int:
        """Bytes of the largest batch. A record that needs more is refused: :meth:`too_large`."""
        return min(self.max_request_size, self.memory)

    def too_large(
        self, topic: str, needed: int, spelled: Callable[[str], str] = str
    ) -> RecordTooLargeError:
        """The error of a record that needs ``needed`` bytes, more than :attr:`largest_batch`.

        ``needed``: see :func:`batch_size_bound`. ``spelled``: the name that the user has for an
        option.
        """
        request, memory = spelled("max_request_size"), spelled("buffer_memory")
        bounds = (
            (self.max_request_size, request, request),
            (self.memory, f"the share of {memory} for batches", memory),
        )
        exceeded = [each for each in bounds if needed > each[0]]
        limits = " and ".join(f"the {limit} bytes of {what}" for limit, what, _ in exceeded)
        return RecordTooLargeError(
            f"a record of {needed} bytes for topic {topic!r} is larger than {limits}: raise "
            f"{' and '.join(option for *_, option in exceeded)} (and the topic's "
            "max.message.bytes), or send smaller records"
        )


def accumulator_settings(
    config: ProducerConfig, is_near: Callable[[int], bool] | None
) -> AccumulatorSettings:
    """The settings by ``config``: its memory is divided, and the sizes of batches are chosen."""
    for_pending, idempotent = config.buffer_memory // 4, config.enable_idempotence
    memory = config.buffer_memory - for_pending
    if config.batch_size is None:
        largest = min(tuning.LARGEST_BATCH, config.max_request_size, memory)
        size = min(tuning.SMALLEST_BATCH, largest)
        doublings = (largest // size).bit_length() - 1
    else:
        size, doublings = max(config.batch_size, 1), 0
    return AccumulatorSettings(
        memory=memory,
        pending_memory=for_pending,
        kept_memory=max(for_pending, config.max_request_size),
        batch_size=size,
        most_doublings=doublings,
        max_request_size=config.max_request_size,
        linger=None if config.linger_ms is None else config.linger_ms / 1000,
        adaptive_linger=ADAPTIVE_LINGER_MS / 1000,
        delivery_timeout=config.delivery_timeout_ms / 1000,
        max_block=min(config.max_block_ms, config.delivery_timeout_ms) / 1000,
        retries=config.retries,
        one_at_a_time=not idempotent and config.max_in_flight_requests_per_connection == 1,
        in_order=idempotent,
        ignore_keys=config.partitioner_ignore_keys,
        adaptive_partitioning=config.partitioner_adaptive_partitioning_enable,
        availability_timeout=config.partitioner_availability_timeout_ms / 1000 or None,
        is_near=is_near,
    )


class BatchSizes:
    """Bytes of a batch before compression.

    ``expansion``: the ratio of a topic's bytes before compression to its bytes on the wire. Batches
    of a fixed size are that much larger, so that they have the size on the wire.
    """

    def __init__(self, settings: AccumulatorSettings, expansion: Callable[[str], float]) -> None:
        self._settings = settings
        self._expansion = expansion
        self._limits: dict[str, int] = {}
        """The most bytes of a batch, for the topics whose brokers refused larger ones."""
        self.most: int = settings.largest_batch
        """Bytes of the largest batch."""

    def full(self, topic: str, growth: BatchGrowth) -> int:
        """Bytes of the next full batch."""
        if self._settings.most_doublings:
            size = self._settings.batch_size << growth.doublings
            return min(size, self._limits[topic]) if topic in self._limits else size
        size = int(self._settings.batch_size * self._expansion(topic))
        return min(size, self.most)

    def share(self, growth: BatchGrowth) -> int:
        """Bytes of keyless records that a partition gets before the next one is chosen."""
        return self._settings.batch_size << growth.doublings

    def of_parts(self, refused: ProducerBatch) -> int:
        """Bytes of the parts of a batch that its broker ``refused`` as too large.

        They have the size of a batch by the options, but half of this one at most if it is smaller,
        or a part itself. If batches grow, no batch of the topic is larger any more.
        """
        topic, smallest = refused.topic_partition.topic, self._settings.batch_size
        size = half = refused.size // 2
        if refused.size > smallest:
            size = smallest
            if self._settings.most_doublings:
                size = max(smallest, min(half, self._limits.get(topic, half)))
                self._limits[topic] = size
            if refused.is_part:
                size = min(size, half)
        return max(size, refused.builder.max_record_size)

    def forget(self, topic: str) -> None:
        """Drop the limit of a topic that is no longer written to."""
        self._limits.pop(topic, None)

    def checked(self, record: SerializedRecord) -> int:
        """An upper bound for the bytes of a batch of only ``record``.

        Raises :class:`RecordTooLargeError`.
        """
        needed = batch_size_bound(record.key, record.value, record.headers)
        if needed > self.most:
            raise self._settings.too_large(record.topic, needed)
        return needed


_WHOLE_SHARE: Final = 2**40
"""More than a batch has records, so that every part of its parts gets an order of its own."""


class BatchPhase(IntEnum):
    """The phases of a batch; :data:`_NEXT` lists those that may follow each."""

    QUEUED = auto()
    """It waits to leave, for the first time or again."""
    TAKEN = auto()
    """It is taken for a request that is not sent yet; it may be compressed first."""
    SENT = auto()
    """A request with it has no outcome: the batch may be in the log."""
    ASIDE = auto()
    """No broker remembers it; the outcome of a later batch decides."""
    DELIVERED = auto()
    FAILED = auto()


QUEUED, TAKEN, SENT, ASIDE, DELIVERED, FAILED = BatchPhase

_NEXT: Final = {
    QUEUED: (TAKEN, FAILED),
    TAKEN: (SENT, QUEUED, FAILED),
    SENT: (DELIVERED, QUEUED, ASIDE, FAILED),
    ASIDE: (DELIVERED, FAILED),
    DELIVERED: (),
    FAILED: (),
}


class ProducerBatch:
    """The records of one batch, their futures, and the progress of the batch.

    Times are the clock's seconds.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "buffer",
        "builder",
        "compressed",
        "created",
        "deadline",
        "futures",
        "generation",
        "growth",
        "is_part",
        "last_error",
        "lent",
        "node",
        "order",
        "order_share",
        "partition",
        "phase",
        "split_in_doubt",
        "state",
        "topic_partition",
        "uncertain",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        buffer: bytearray,
        limit: int,
        now: float,
        deadline: float,
    ) -> None:
        self.topic_partition = topic_partition
        self.buffer: bytearray | None = buffer
        """Its memory of the pool; None: it never had any, or has returned it."""
        self.builder = RecordsBuilder(buffer, limit)
        self.created = now
        self.deadline = deadline
        self.attempts = 0
        """The number of times that it failed and was put back."""
        self.last_error: ProducerError | None = None
        self.uncertain = False
        """True if an attempt may have been written: no response has excluded it."""
        self.order: BatchOrder = -1
        """The number among the batches of its partition, given when it first leaves; -1 before."""
        self.order_share: BatchOrder = _WHOLE_SHARE
        """The distance to the next batch's order; a split divides it among the parts."""
        self.is_part = False
        """True for a part of a batch that was too large."""
        self.split_in_doubt = False
        """True for a part of a batch that may be in the log: brokers don't know the part by it."""
        self.state: ProducerState = NO_PRODUCER_STATE
        """The sequence number, given when it leaves without one, and kept when it is sent again,
        until :meth:`Partition.renumber`."""
        self.compressed: bytes | None = None
        self.futures = 0
        """The number of counted records with a future of their own."""
        self.phase = QUEUED
        """Its phase, see :meth:`enter`; :class:`Partition` has it in the list of that phase."""
        self.base_offset: BigInt = -1
        """The offset of its first record, once it is delivered; -1: unknown."""
        self.generation = 0
        """The generation of flushes that wait for it; see :class:`Flushes`."""
        self.partition: Any = None
        """The owner of the batch: its :class:`Partition`, set when it is queued."""
        self.growth: BatchGrowth | None = None
        """The size of the batches after it; None: no records joined it, or it is a part."""
        self.node = -1
        """The node of the last attempt."""
        self.lent = False
        """True while a request or a thread reads the buffer, so no other batch may get it."""

    def __repr__(self) -> str:
        return f"<ProducerBatch {self.topic_partition} records={self.count} order={self.order}>"

    def append(self, record: SerializedRecord) -> bool:
        """Add ``record``; False: it does not fit, or the batch is closed."""
        return bool(
            self.builder.append(
                record.token,
                record.timestamp_ms,
                record.key,
                record.value,
                record.headers,
                record.sent_ns,
            )
        )

    def enter(self, phase: BatchPhase) -> None:
        """Go on to ``phase``."""
        assert phase in _NEXT[self.phase], f"from {self.phase.name} to {phase.name}"
        self.phase = phase

    @property
    def done(self) -> bool:
        """True if the batch has its outcome."""
        return self.phase is DELIVERED or self.phase is FAILED

    @property
    def in_flight(self) -> bool:
        """True if the batch has left its queue, and has no outcome."""
        return self.phase is TAKEN or self.phase is SENT

    @property
    def count(self) -> int:
        """The number of records."""
        return self.builder.count

    @property
    def size(self) -> int:
        """Bytes with the header, before compression."""
        return self.builder.position

    @property
    def compression_ratio(self) -> float:
        """Size on the wire divided by :attr:`size`, once it is compressed; else 1."""
        if self.compressed is None:
            return 1.0
        return (BATCH_OVERHEAD + len(self.compressed)) / self.size

    @property
    def may_have_been_written(self) -> bool:
        """True if the batch may be in the log, if it is given up now, without a response.

        After a response, or an error in its place, it is :func:`still_uncertain`.
        """
        return self.uncertain or self.phase is SENT

    def compress(self, compression: Compression | None) -> None:
        """Compress the records, once. It may run in another thread, which then owns the records."""
        if self.compressed is None:
            self.compressed = compress_records(self.builder, compression)

    def note_delivered(self, base_offset: BigInt) -> None:
        """The batch is in the log; :class:`LateResults` resolves its futures."""
        self.enter(DELIVERED)
        self.base_offset = base_offset

    def fail(self, error: BaseException) -> None:
        """Fail every future that has no outcome yet."""
        self.fail_records({}, error)

    def fail_records(self, errors: Mapping[int, BaseException], otherwise: BaseException) -> None:
        """Fail each record with its own error, by its index, or with ``otherwise``."""
        self.enter(FAILED)
        show(self.builder.tokens)  # the errors lead back to it
        for index, token in enumerate(tokens_by_record(self.builder.tokens)):
            tell_partition(token, self.topic_partition.partition)
            fail_record(token, errors.get(index, otherwise))

    def release(self) -> bytearray | None:
        """Drop the records, and return the buffer for the pool.

        If the buffer is still :attr:`lent`, the call returns a new one.
        """
        buffer, self.buffer = self.buffer, None
        if buffer is not None and self.lent:
            buffer = bytearray(len(buffer))
        self.builder.release()
        self.compressed = None
        return buffer


def split_batch(batch: ProducerBatch, size: int) -> list[ProducerBatch]:
    """The records of ``batch`` in batches of at most ``size`` bytes, or of one record.

    It is split when its broker finds it too large and it has more than one record, whatever time
    and retries are left; :meth:`BatchSizes.of_parts` says the ``size``. The parts leave one after
    the other in the batch's place, before all later ones.

    The parts share the batch's order, sequence numbers and deadline. The last part has the batch's
    pooled memory and the count of its futures, so both become free when that part is done. The
    other parts have memory outside of the pool. Source: Kafka's ``ProducerBatch.split``.
    """
    parts: list[ProducerBatch] = []
    tokens = tokens_by_record(batch.builder.tokens)
    sent_ns = sent_times(batch.builder.marks, batch.count)
    for token, sent, record in zip(tokens, sent_ns, read_records(batch.builder), strict=True):
        if not parts or not parts[-1].builder.append(token, *record, sent):
            part = _part(batch, size)
            if not part.builder.append(token, *record, sent):
                part = _part(batch, batch_size_bound(record.key, record.value, record.headers))
                part.builder.append(token, *record, sent)
                part.builder.close()
            parts.append(part)
    _number(batch, parts)
    parts[-1].buffer, batch.buffer = batch.buffer, None
    parts[-1].futures = batch.futures
    batch.release()
    return parts


def still_uncertain(before: bool, error: ProducerError) -> bool:
    """True if a batch may be in the log after ``error``; ``before``: the same before it."""
    return before or error.written is Written.MAYBE


def _part(batch: ProducerBatch, size: int) -> ProducerBatch:
    part = ProducerBatch(
        batch.topic_partition, bytearray(size), size, batch.created, batch.deadline
    )
    part.buffer = None
    part.partition = batch.partition
    part.is_part = True
    part.attempts = batch.attempts
    part.uncertain = batch.uncertain
    part.split_in_doubt = batch.uncertain
    return part


def _number(batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
    sequence = batch.state.base_sequence
    for number, part in enumerate(parts):
        part.builder.close()
        part.order_share = batch.order_share // len(parts)
        part.order = batch.order + number * part.order_share
        if batch.state is not NO_PRODUCER_STATE:
            part.state = batch.state._replace(base_sequence=sequence)
            sequence = next_sequence(sequence, part.count)
