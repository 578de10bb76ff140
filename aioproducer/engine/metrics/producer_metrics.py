"""The calls of the other packages when something happens, and the snapshot that users read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict

from aioproducer.engine.metrics.counts import Counts, Latencies, Reading, Windows
from aioproducer.engine.metrics.summary import Summary
from aioproducer.model import NodeId

__all__ = ["Latencies", "MetricsSnapshot", "ProducerMetrics", "TransactionCall"]

Mark: TypeAlias = tuple[int, int]
"""The index of a record in its batch, and the wall clock's nanoseconds of its ``send()``."""

TransactionCall: TypeAlias = Literal["init", "begin", "send_offsets", "commit", "abort"]

MetricsSnapshot = TypedDict(
    "MetricsSnapshot",
    {
        "producer-metrics": dict[str, float],
        "producer-topic-metrics": dict[str, dict[str, float]],
        "producer-node-metrics": dict[str, dict[str, float]],
    },
)
"""Metric values by Java group and name; the topic group by topic, the node group by ``node-<id>``.

An average or maximum is NaN while its windows hold no value; a rate or total is 0.0.
"""


class ProducerMetrics:
    """Counts events; cheap enough to be always on.

    Sizes are bytes, times are seconds, ``now`` is a monotonic clock. Call per batch, request,
    connection or wait, never per record.

    Args:
        num_samples: past windows that averages, maxima and rates cover (``metrics.num.samples``).
        sample_window: seconds of one window (``metrics.sample.window.ms``).
        now: the start of the first window.
    """

    __slots__ = ("_windows",)

    def __init__(self, *, num_samples: int = 2, sample_window: float = 30.0, now: float) -> None:
        self._windows = Windows(num_samples=num_samples, sample_window=sample_window, now=now)

    def batch_sent(
        self,
        topic: str,
        records: int,
        size: int,
        uncompressed_size: int,
        largest: int,
        queue_time: float,
        now: float,
    ) -> None:
        """A batch is in a produce request; one that is retried counts each time.

        ``size`` is that of the batch as it is sent, ``largest`` that of its largest record before
        compression, ``queue_time`` the time from its creation to the request. Both sizes of the
        batch include its header, so none is 0.
        """
        windows = self._windows
        counts = windows.current if now < windows.ends else windows.at(now)
        client, stats = counts.client, counts.topics.by_key[topic]
        stats.batches_sent += 1
        stats.records_sent += records
        stats.bytes_sent += size
        stats.compression_ratios += size / uncompressed_size
        batch_size: Summary = client.batch_size
        batch_size.add(size)
        record_size: Summary = client.record_size
        record_size.add(largest)
        queue_times: Summary = client.queue_time
        queue_times.add(queue_time)

    def request_built(self, records: int, now: float) -> None:
        """A produce request was built, with so many records."""
        windows = self._windows
        counts = windows.current if now < windows.ends else windows.at(now)
        records_per_request: Summary = counts.client.records_per_request
        records_per_request.add(records)

    def records_delivered(
        self, records: int, marks: Sequence[Mark], now_ns: int, now: float
    ) -> None:
        """A batch of so many records was delivered, at ``now_ns`` by the wall clock."""
        windows = self._windows
        counts = windows.current if now < windows.ends else windows.at(now)
        latency: Summary = counts.client.record_latency
        end: int = records
        first: int
        sent_ns: int
        for first, sent_ns in reversed(marks):
            if first < end:
                latency.add((now_ns - sent_ns) / 1e9, end - first)
                end = first

    def record_waited(self, seconds: float, now: float) -> None:
        """A record that waited for metadata or memory has joined a batch."""
        self._windows.at(now).client.record_wait.add(seconds)

    def records_retried(self, topic: str, records: int, now: float, node: NodeId) -> None:
        """A batch was put back for another attempt, after one at ``node``."""
        counts = self._windows.at(now)
        counts.topics.by_key[topic].records_retried += records
        counts.nodes.by_key[node].records_retried += records

    def records_failed(
        self, topic: str, records: int, now: float, node: NodeId | None = None
    ) -> None:
        """Futures failed: all of a batch, or the future of a record without a batch.

        ``node``: the broker of the last attempt; None: there was none.
        """
        counts = self._windows.at(now)
        counts.topics.by_key[topic].records_failed += records
        if node is not None:
            counts.nodes.by_key[node].records_failed += records

    def batch_split(self, now: float) -> None:
        self._windows.at(now).client.batches_split.add(1)

    def buffer_exhausted(self, now: float) -> None:
        """One record was dropped for lack of memory; it also counts in ``records_failed``."""
        self._windows.at(now).client.records_dropped.add(1)

    def buffer_waited(self, seconds: float, now: float) -> None:
        """A wait for memory ended, in whatever way."""
        self._windows.at(now).client.buffer_wait.add(seconds)

    def read_waited(self, seconds: float, now: float) -> None:
        """An application waited for records to read."""
        self._windows.at(now).client.read_wait.add(seconds)

    def metadata_waited(self, seconds: float, now: float) -> None:
        """A wait for a topic's metadata ended, in whatever way."""
        self._windows.at(now).client.metadata_wait.add(seconds)

    def flushed(self, seconds: float, now: float) -> None:
        """A ``flush()`` ended, in whatever way."""
        self._windows.at(now).client.flush.add(seconds)

    def transaction_call_ended(self, call: TransactionCall, seconds: float, now: float) -> None:
        """A call about transactions ended, in whatever way."""
        client = self._windows.at(now).client
        match call:
            case "init":
                client.txn_init.add(seconds)
            case "begin":
                client.txn_begin.add(seconds)
            case "send_offsets":
                client.txn_send_offsets.add(seconds)
            case "commit":
                client.txn_commit.add(seconds)
            case "abort":
                client.txn_abort.add(seconds)

    def request_sent(self, node_id: NodeId, size: int, now: float) -> None:
        """A request of any kind was written; ``size`` includes the length prefix."""
        windows = self._windows
        counts = windows.current if now < windows.ends else windows.at(now)
        request_size: Summary = counts.nodes.by_key[node_id].request_size
        request_size.add(size)

    def response_received(
        self,
        node_id: NodeId,
        size: int,
        throttle_time: float | None,
        now: float,
        latency: float | None = None,
        round_trip: float | None = None,
    ) -> None:
        """A response of any kind was read; ``size`` includes the length prefix.

        ``throttle_time`` is None if the response has no such field. Zeros belong in the average
        too, as in Kafka. ``latency`` is None unless it is a produce response, as in Kafka's
        ``Sender``, or one of a fetch: lookups and handshakes do not count in the latency of
        records. ``round_trip``: that of the connection.
        """
        windows = self._windows
        counts = windows.current if now < windows.ends else windows.at(now)
        stats = counts.nodes.by_key[node_id]
        response_size: Summary = stats.response_size
        response_size.add(size)
        if throttle_time is not None:
            throttle_times: Summary = stats.throttle_time
            throttle_times.add(throttle_time)
        if latency is not None:
            request_latency: Summary = stats.latency
            request_latency.add(latency)
            if round_trip is not None:
                broker_time: Summary = counts.client.broker_time
                broker_time.add(latency - round_trip)

    def connection_opened(self, now: float) -> None:
        self._windows.at(now).client.connections_opened.add(1)

    def connection_closed(self, now: float) -> None:
        self._windows.at(now).client.connections_closed.add(1)

    def logged_in(self, now: float) -> None:
        """A broker has accepted a connection with TLS or SASL."""
        self._windows.at(now).client.logins.add(1)

    def login_renewed(self, seconds: float, now: float) -> None:
        """A connection has logged in once more (KIP-368), which took ``seconds``."""
        self._windows.at(now).client.logins_renewed.add(seconds)

    def login_refused(self, now: float, *, renewal: bool) -> None:
        """A TLS handshake or a SASL login failed for good, the first of a connection or a later
        one."""
        client = self._windows.at(now).client
        (client.renewals_refused if renewal else client.logins_refused).add(1)

    def forget_topic(self, topic: str) -> None:
        """Drop the topic's own metrics; the producer's sums keep what it counted."""
        self._windows.forget_topic(topic)

    def forget_node(self, node_id: NodeId) -> None:
        """Drop the broker's own metrics; the producer's sums keep what it counted."""
        self._windows.forget_node(node_id)

    def latencies(self, now: float) -> Latencies:
        """The times since the start; the histograms are the caller's."""
        ever = self._windows.read(now).ever
        client = ever.client
        return Latencies(
            record=client.record_latency,
            wait=client.record_wait,
            queue=client.queue_time,
            request=ever.nodes.whole().latency,
            broker=client.broker_time,
        )

    def read(self, now: float) -> Reading[Counts]:
        """The current counts."""
        return self._windows.read(now)

    def snapshot(self, now: float, *, gauges: Mapping[str, float]) -> MetricsSnapshot:
        """All metrics, with their current values; the caller may keep and change the result.

        Args:
            now: the end of the current window so far.
            gauges: the value of every metric in ``names.GAUGES``; NaN where there is none yet.

        Raises:
            ValueError: ``gauges`` lacks one of them or has another.
        """
        from aioproducer.engine.metrics.names import snapshot_of

        return snapshot_of(self._windows.read(now), gauges)
