"""The counts of a client: by kind of event and place, times in buckets, in windows of time.

Each number is counted once, at its topic, at its node or at the producer. The producer's number is
the sum over its topics or nodes, if they have it. There may be thousands of topics, so their counts
are numbers in one object. A :class:`LatencyHistogram` gives percentiles of any number of values in
bounded memory.

All counts share time windows on a fixed grid. An event is only added to the current window. A
window that is too old for the rates is added to the past. The recent values are the sum of the live
windows, and the totals are the past plus the recent values.

The live windows are the current one and the ``num_samples`` before it, so every event of the last
``num_samples * sample_window`` seconds counts, as with Kafka's ``SampledStat``. In Kafka a window
starts with an event of its metric. Here all windows start together: idle time is included, and
the rates of all topics add up to the rate of the producer.
"""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, Protocol, Self, TypeVar

from aioproducer.engine.metrics.summary import LatencyHistogram, Summary
from aioproducer.model import NodeId

__all__ = [
    "Latencies",
    "LatencyHistogram",
    "ClientStats",
    "NodeStats",
    "Stats",
    "Summary",
    "TopicStats",
    "Breakdown",
    "Counts",
    "Reading",
    "TimeWindows",
    "Windows",
]


class Latencies(NamedTuple):
    """The times of records since the producer's start, whole and in parts, in seconds."""

    record: LatencyHistogram
    """From the ``send()`` call to the acknowledgement; one value for each delivered record. Records
    sent within 50 µs of each other into one batch count with the time of the first. Both ends are
    times of the wall clock: a step of it counts in the records that are under way."""
    wait: LatencyHistogram
    """Waits for metadata or memory; one value for each record that waited."""
    queue: LatencyHistogram
    """From the creation of a batch to the request that carries it; one value for each attempt."""
    request: LatencyHistogram
    """From a produce request to its response: the network and the broker."""
    broker: LatencyHistogram
    """The same without the round-trip time that the kernel has measured on the connection. Only
    Linux reports it; elsewhere there are no values."""


class Stats:
    """A struct with numbers and summaries as its only fields; each begins empty."""

    __slots__ = ()

    def __init__(self) -> None:
        for name, kind in type(self).__annotations__.items():
            setattr(self, name, kind())

    def absorb(self, other: Self) -> None:
        for name in type(self).__annotations__:
            mine, more = getattr(self, name), getattr(other, name)
            if isinstance(mine, Summary):
                mine.absorb(more)
            else:
                setattr(self, name, mine + more)


class TopicStats(Stats):
    """Batches and records of one topic."""

    __slots__ = (
        "batches_sent",
        "bytes_sent",
        "compression_ratios",
        "records_failed",
        "records_retried",
        "records_sent",
    )

    batches_sent: int
    records_sent: int
    records_retried: int
    records_failed: int
    bytes_sent: int
    compression_ratios: float
    """the sum over the batches sent"""

    def __init__(self) -> None:  # without a loop over the fields: there may be thousands of topics
        self.batches_sent = self.records_sent = self.records_retried = self.records_failed = 0
        self.bytes_sent = 0
        self.compression_ratios = 0.0

    def absorb(self, other: Self) -> None:
        # Without a call in between, so that no other thread counts while these are read.
        self.batches_sent += other.batches_sent
        self.records_sent += other.records_sent
        self.records_retried += other.records_retried
        self.records_failed += other.records_failed
        self.bytes_sent += other.bytes_sent
        self.compression_ratios += other.compression_ratios

    @property
    def compression_ratio(self) -> float:
        """The mean over the batches sent; NaN without batches."""
        return self.compression_ratios / self.batches_sent if self.batches_sent else math.nan


class NodeStats(Stats):
    """Traffic with one broker, in frames of Kafka's protocol. One value per frame."""

    records_retried: int
    records_failed: int

    request_size: Summary
    """bytes"""
    response_size: Summary
    """bytes"""
    latency: LatencyHistogram
    """one value per response to a request with records: produce, or fetch"""
    throttle_time: Summary
    """seconds; zeros count"""


class ClientStats(Stats):
    """Events of the producer as a whole. One value per event; times in seconds."""

    batch_size: Summary
    """bytes as sent"""
    record_size: Summary
    """bytes of the largest record of a batch"""
    record_latency: LatencyHistogram
    """one value per record delivered"""
    record_wait: LatencyHistogram
    """one value per record that waited"""
    queue_time: LatencyHistogram
    """one value per batch sent"""
    broker_time: LatencyHistogram
    """one value per produce response, if the round-trip time is known"""
    records_per_request: Summary
    batches_split: Summary
    records_dropped: Summary
    buffer_wait: Summary
    read_wait: Summary
    metadata_wait: Summary
    flush: Summary
    txn_init: Summary
    txn_begin: Summary
    txn_send_offsets: Summary
    txn_commit: Summary
    txn_abort: Summary
    connections_opened: Summary
    connections_closed: Summary
    logins: Summary
    logins_refused: Summary
    logins_renewed: Summary
    renewals_refused: Summary


_K = TypeVar("_K", bound=Hashable)
_S = TypeVar("_S", bound=Stats)
_T = TypeVar("_T")

_SHORTEST_SPAN: Final = 0.001
_ATTEMPTS: Final = 10_000_000
"""The spin of a reading while counts move, some tenths of a second: the moving thread goes on after
each of the interpreter's intervals of 5 ms."""


class Breakdown(Generic[_K, _S]):
    """Stats by key, made on first use. A forgotten key's counts stay in the sum."""

    __slots__ = ("_forgotten", "_new", "by_key")

    def __init__(self, new: Callable[[], _S]) -> None:
        self._new = new
        self._forgotten = new()
        self.by_key: defaultdict[_K, _S] = defaultdict(new)

    def forget(self, key: _K) -> None:
        stats = self.by_key.pop(key, None)
        if stats is not None:
            self._forgotten.absorb(stats)

    def absorb(self, other: Self) -> None:
        self._forgotten.absorb(other._forgotten)
        for key, stats in list(other.by_key.items()):
            self.by_key[key].absorb(stats)

    def whole(self) -> _S:
        total = self._new()
        total.absorb(self._forgotten)
        for stats in self.by_key.values():
            total.absorb(stats)
        return total


class Counts:
    """All counts of some period."""

    __slots__ = ("client", "nodes", "topics")

    def __init__(self) -> None:
        self.client = ClientStats()
        self.topics: Breakdown[str, TopicStats] = Breakdown(TopicStats)
        self.nodes: Breakdown[NodeId, NodeStats] = Breakdown(NodeStats)

    def absorb(self, other: Self) -> None:
        self.client.absorb(other.client)
        self.topics.absorb(other.topics)
        self.nodes.absorb(other.nodes)


class Reading(NamedTuple, Generic[_T]):
    """The counts that a metric is computed from: the live windows, and all since the start."""

    recent: _T
    ever: _T
    elapsed: float
    """seconds covered by ``recent``"""


class Countable(Protocol):
    """The counts of some period."""

    def absorb(self, other: Self, /) -> None:
        """Add the counts of another period."""


_C = TypeVar("_C", bound=Countable)


class TimeWindows(Generic[_C]):
    """The live windows and the past. Times are seconds of one monotonic clock.

    ``new`` makes the counts of a window.

    One thread counts, and any thread reads. The counting thread never waits: a reading that meets a
    move of counts from one place to another is taken again.
    """

    __slots__ = (
        "_index",
        "_live",
        "_moves",
        "_new",
        "_num_samples",
        "_origin",
        "_past",
        "_width",
        "current",
        "ends",
    )

    def __init__(
        self, new: Callable[[], _C], *, num_samples: int, sample_window: float, now: float
    ) -> None:
        self._new = new
        self._num_samples = num_samples
        self._width = sample_window
        self._origin = now
        self._moves = 0
        """Odd while counts move."""
        self._past = new()
        self._live: deque[tuple[int, _C]] = deque()
        self._open(0)

    def at(self, now: float) -> _C:
        """The window of an event. A clock that stops or goes back is tolerated.

        Until :attr:`ends` it is :attr:`current`, which frequent events look at without a call.
        """
        if now >= self.ends:
            self._advance(now)
        return self.current

    def read(self, now: float) -> Reading[_C]:
        """The live windows and all since the start, as copies for the caller to keep."""
        for _ in range(_ATTEMPTS):
            moves = self._moves
            if moves % 2 == 0:
                try:
                    reading = self._copy(now)
                except RuntimeError:
                    continue  # garbage was collected while a list was made, and a topic was added
                if moves == self._moves:
                    return reading
        return self._copy(now)

    def _copy(self, now: float) -> Reading[_C]:
        index = self._index_at(now)
        recent, ever = self._new(), self._new()
        ever.absorb(self._past)
        for opened, window in list(self._live):
            (ever if opened < index - self._num_samples else recent).absorb(window)
        ever.absorb(recent)
        return Reading(recent, ever, self._elapsed(now, index))

    @contextmanager
    def _moving(self) -> Iterator[None]:
        self._moves += 1
        try:
            yield
        finally:
            self._moves += 1

    def _all(self) -> list[_C]:
        return [self._past, *(window for _, window in self._live)]

    def _open(self, index: int) -> None:
        self._index = index
        self.ends = self._origin + (index + 1) * self._width
        """The time at which the current window has ended."""
        self.current = self._new()
        self._live.append((index, self.current))

    def _index_at(self, now: float) -> int:
        if now < self.ends:
            return self._index
        # The division may round down to the window that has just ended.
        return max(self._index + 1, int((now - self._origin) // self._width))

    def _advance(self, now: float) -> None:
        with self._moving():
            self._open(self._index_at(now))
            while self._live[0][0] < self._index - self._num_samples:
                self._past.absorb(self._live.popleft()[1])

    def _elapsed(self, now: float, index: int) -> float:
        """Kafka's ``Rate.windowSize``: the period of a rate is at least ``num_samples - 1`` full
        windows, so the first records of a producer do not give an extreme rate."""
        full = max(min(index, self._num_samples), self._num_samples - 1)
        started = self._origin + index * self._width
        return max(full * self._width + now - started, _SHORTEST_SPAN)


class Windows(TimeWindows[Counts]):
    """The windows of a client."""

    __slots__ = ()

    def __init__(self, *, num_samples: int, sample_window: float, now: float) -> None:
        super().__init__(Counts, num_samples=num_samples, sample_window=sample_window, now=now)

    def forget_topic(self, topic: str) -> None:
        with self._moving():
            for counts in self._all():
                counts.topics.forget(topic)

    def forget_node(self, node_id: NodeId) -> None:
        with self._moving():
            for counts in self._all():
                counts.nodes.forget(node_id)
