"""The one coroutine that moves batches: it sends them, and gives answered ones their outcome.

Source: Kafka's ``Sender``. Its thread is a task here; its poll is a sleep until something happens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aioproducer.accumulator import ProducerBatch, RecordAccumulator
from aioproducer.cluster.metadata import Metadata
from aioproducer.errors import ProducerError, ProtocolError
from aioproducer.metrics import ProducerMetrics
from aioproducer.model import Node, NodeId
from aioproducer.network.client import NetworkClient
from aioproducer.network.request import Completion
from aioproducer.records.compression import Compression
from aioproducer.records.compression_ratio import CompressionRatios
from aioproducer.records.record_batch import NO_PRODUCER_STATE
from aioproducer.runtime.tasks import TaskOwner
from aioproducer.sender.ad_hoc_requests import AdHocRequest, AdHocRequests
from aioproducer.sender.completer import RECORDS_PER_SLICE, BatchCompleter
from aioproducer.sender.outcomes import Deliver, Outcome, decide, decide_error
from aioproducer.sender.produce import (
    EncodedBatch,
    ProduceRequest,
    ProduceResults,
)
from aioproducer.sender.producer_id import ProducerIdRequester
from aioproducer.sender.record_expiry import RecordExpiry
from aioproducer.sender.refresher import MetadataRefresher
from aioproducer.sender.requests import InitProducerIdRequest, MetadataRequest
from aioproducer.sender.transaction_codec import TransactionRequest
from aioproducer.sender.transaction_driver import TransactionDriver
from aioproducer.sender.wakeup import Wakeup
from aioproducer.transactions.manager import TransactionManager
from aioproducer.transactions.sequence_numbers import SequenceNumbers

COMPRESS_ELSEWHERE_BYTES: Final = 64 * 1024
"""A request with more than this to compress is compressed in a thread, not on the event loop."""


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """The sender's options. Times are seconds unless their name says otherwise."""

    acks: int
    request_timeout_ms: int
    delivery_timeout: float


class Sender:
    """Runs from the producer's start until every record has its outcome."""

    def __init__(
        self,
        settings: SenderSettings,
        *,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        refresher: MetadataRefresher,
        completer: BatchCompleter,
        identity: SequenceNumbers,
        producer_id: ProducerIdRequester | TransactionDriver,
        record_expiry: RecordExpiry,
        compression: Compression | None,
        ratios: CompressionRatios,
        metrics: ProducerMetrics,
        owner: TaskOwner,
        wakeup: Wakeup,
        clock: Callable[[], float],
        elsewhere: Callable[[Callable[[], None]], Awaitable[None]],
        ad_hoc: AdHocRequests,
        transactions: TransactionManager | None = None,
    ) -> None:
        self._settings = settings
        self._accumulator = accumulator
        self._batches = accumulator.batches
        self._waiters = accumulator.waiters
        self._client = client
        self._metadata = metadata
        self._refresher = refresher
        self._completer = completer
        self._identity = identity
        self._producer_id = producer_id
        self._record_expiry = record_expiry
        self._compression = compression
        self._ratios = ratios
        self._metrics = metrics
        self._owner = owner
        self._wakeup = wakeup
        self._clock = clock
        self._ad_hoc = ad_hoc
        self._transactions = transactions
        self._elsewhere = elsewhere
        """Runs a call off the event loop."""
        self._preparing: set[int] = set()
        self._failure_seen: dict[int, ProducerError] = {}

    # --- the loop --------------------------------------------------------------------------

    async def run(self) -> None:
        """Send until the accumulator is closing and empty."""
        try:
            while not self._finished:
                deadline = self._round(self._clock())
                if not self._finished:
                    await self._wakeup.wait(deadline)
        finally:
            self._wakeup.close()
            self._record_expiry.report(float("inf"))

    def _round(self, now: float) -> float | None:
        """Do one round of work. Returns when to look again by the clock alone."""
        for completion in self._client.take_completed():
            self._handle(completion, now)
        self._expire(now)
        self._completer.mend(now)
        self._refresher.step(now)
        return _earliest(
            self._serve_memory(now),
            self._producer_id.step(now),
            self._ad_hoc.step(now),
            self._send_ready(now),
            self._refresher.step(now),  # again: only now it is known which leaders are missing
            self._client.poll(now),
            self._accumulator.next_deadline(),
            self._record_expiry.report(now),
        )

    @property
    def _finished(self) -> bool:
        accumulator = self._accumulator
        return accumulator.closing and accumulator.is_empty and self._producer_id.idle

    def give_up(self, error: ProducerError) -> int:
        """Fail every record that has no outcome. Returns their number. The memory is not reused."""
        return sum(self.giving_up(error))

    def giving_up(self, error: ProducerError) -> Iterator[int]:
        """Fail every record that has no outcome, when :meth:`run` has ended, in steps.

        Each step gives the number of records that failed in it.
        """
        return self._completer.abort_in_slices(error, self._clock())

    def _serve_memory(self, now: float) -> float | None:
        """Give memory that has come back to pending records, then to callers of ``drain()``."""
        for waited in self._accumulator.admit(now):
            self._metrics.buffer_waited(waited, now)
        return self._waiters.serve(now)

    def _expire(self, now: float) -> None:
        late = self._batches.expired(now, RECORDS_PER_SLICE)
        if late:
            timeout = self._settings.delivery_timeout
            self._completer.expire(late, timeout, self._why_not_sent, now)
        self._record_expiry.expire(now)

    def _why_not_sent(self, batch: ProducerBatch) -> str:
        """The reason that a batch was not sent, if it met no error of its own."""
        leader = self._batches.leader_of(batch)
        if leader is None:
            return "the partition has no leader"
        if not self._identity.usable:
            return "no producer id was assigned"
        manager = self._transactions
        if manager is not None and not manager.contains(batch.topic_partition):
            said = f": {manager.last_response_error}" if manager.last_response_error else ""
            return f"the coordinator did not take the partition into the transaction{said}"
        broker = self._metadata.describe(leader)
        failure = self._client.failures().get(leader)
        return f"{broker} did not take it" if failure is None else f"last error: {failure}"

    # --- down: batches to brokers ----------------------------------------------------------

    def _send_ready(self, now: float) -> float | None:
        deadline = self._batches.release_delayed(now)
        for topic in self._batches.topics_without_leader():
            self._metadata.use(topic, now)
            self._metadata.request_update(topic)
        if not self._identity.usable:
            return None
        for node_id in self._batches.nodes():
            node = self._metadata.snapshot.brokers.get(node_id)
            if node is None:
                self._metadata.request_update()
                continue
            if node_id not in self._preparing:
                deadline = _earliest(deadline, self._send_to(node, now))
        return deadline

    def _send_to(self, node: Node, now: float) -> float | None:
        """Send the batches that are ready for ``node``. Returns when to look again."""
        while True:
            idle = self._client.in_flight(node.id) == 0
            due = self._batches.ready(node.id, now, idle=idle)
            if due is None or due > now:
                return due
            if not self._client.ready(node, now):
                self._batches.node_is_ready(node.id, False, now)
                self._doubt_leader(node.id)
                return self._client.not_before(node.id, now)
            self._batches.node_is_ready(node.id, True, now)
            batches = self._batches.drain(node.id, now)
            self._account(batches, now)
            if self._is_much_to_compress(batches):
                self._preparing.add(node.id)
                self._owner.start(
                    self._compress_and_send(node, batches), name=f"aioproducer-compress-{node.id}"
                )
                return None
            for batch in batches:
                batch.compress(self._compression)
            self._send(node, batches)

    def _doubt_leader(self, node: int) -> None:
        """Batches wait for a node that can't be reached: maybe another one leads by now."""
        failure = self._client.failures().get(node)
        if failure is not None and self._failure_seen.get(node) is not failure:
            self._failure_seen[node] = failure
            self._metadata.request_update()

    def _account(self, batches: Sequence[ProducerBatch], now: float) -> None:
        for batch in batches:
            self._metadata.use(batch.topic_partition.topic, now)
            if batch.state is NO_PRODUCER_STATE:
                batch.state = self._identity.stamp(batch.topic_partition, batch.count)

    def _is_much_to_compress(self, batches: Sequence[ProducerBatch]) -> bool:
        if self._compression is None:
            return False
        size = sum(batch.size for batch in batches if batch.compressed is None)
        return size > COMPRESS_ELSEWHERE_BYTES

    async def _compress_and_send(self, node: Node, batches: Sequence[ProducerBatch]) -> None:
        def compress() -> None:
            for batch in batches:
                batch.compress(self._compression)

        try:
            await self._elsewhere(compress)
        finally:
            self._preparing.discard(node.id)
        self._wakeup.wake()
        if self._client.can_send(node.id, self._clock()):
            self._send(node, batches)
            return
        now = self._clock()
        for batch in batches:
            if not batch.done:
                self._batches.put_back(batch, now, now)

    def _send(self, node: Node, batches: Sequence[ProducerBatch]) -> None:
        now = self._clock()
        encoded = [
            EncodedBatch(batch, batch.encode(self._compression))
            for batch in batches
            if not batch.done
        ]
        for batch, data in encoded:
            batch.in_request = isinstance(data, memoryview)  # else it is a copy, compressed
            self._learn_from(batch, len(data), now)
        if not encoded:
            return
        topics = self._metadata.snapshot.topics
        names = {batch.topic_partition.topic for batch, _ in encoded}
        request = ProduceRequest(
            encoded,
            self._settings.acks,
            self._settings.request_timeout_ms,
            {name: topics[name].topic_id if name in topics else None for name in names},
            None if self._transactions is None else self._transactions.handle,
        )
        self._metrics.request_built(sum(batch.count for batch, _ in encoded), now)
        self._client.send(node.id, request)

    def _learn_from(self, batch: ProducerBatch, size: int, now: float) -> None:
        topic = batch.topic_partition.topic
        if self._compression is not None:
            self._ratios.observe(topic, size / batch.size)
        self._metrics.batch_drained(
            topic,
            batch.count,
            size,
            batch.size,
            batch.builder.max_record_size,
            now - batch.created,
            now,
        )

    # --- up: responses to outcomes ---------------------------------------------------------

    def _handle(self, completion: Completion, now: float) -> None:
        match completion.request:
            case ProduceRequest() as produce:
                self._handle_produce(produce, completion, now)
            case MetadataRequest() as refresh:
                self._refresher.completed(refresh, completion, now)
            case InitProducerIdRequest() | TransactionRequest():
                self._producer_id.completed(completion, now)
            case AdHocRequest() as inquiry:
                self._ad_hoc.completed(inquiry, completion)

    def _handle_produce(self, request: ProduceRequest, completion: Completion, now: float) -> None:
        node = completion.node
        for batch, _ in request.batches:
            batch.in_request = False
        if completion.error is not None:
            for batch, _ in request.batches:
                self._settle_error(batch, completion.error, node, now)
            return
        if not request.answered:
            for batch, _ in request.batches:
                if not batch.done:
                    self._completer.settle(batch, Deliver(-1, -1), node, now)
            return
        produced: ProduceResults = completion.result
        self._take_hints(produced, now)
        for batch, _ in request.batches:
            if batch.done:
                continue
            result = produced.results.get(batch)
            if result is not None and not result.error_code:
                outcome: Outcome = Deliver(result.base_offset, result.log_append_time_ms)
                self._completer.settle(batch, outcome, node, now)
                continue
            where = f"{batch.topic_partition} on {self._metadata.describe(node)}"
            if result is None:
                missing = ProtocolError(f"{where}: the response does not mention the partition")
                self._settle_error(batch, missing, node, now)
            else:
                outcome = decide(result, where, self._completer.standing(batch, now))
                self._completer.settle(batch, outcome, node, now)

    def _settle_error(
        self, batch: ProducerBatch, error: ProducerError, node: NodeId, now: float
    ) -> None:
        if not batch.done:
            standing = self._completer.standing(batch, now)
            self._completer.settle(batch, decide_error(error, standing), node, now)

    def _take_hints(self, produced: ProduceResults, now: float) -> None:
        """Move partitions to the leaders that the response names, before they are retried."""
        leaders = {
            batch.topic_partition: result.leader
            for batch, result in produced.results.items()
            if result.leader is not None
        }
        if leaders:
            self._metadata.take_hints(leaders, produced.nodes)
            for topic in {topic for topic, _ in leaders}:
                info = self._metadata.snapshot.topics.get(topic)
                if info is not None:
                    self._accumulator.update_topic(info, now)


def _earliest(*moments: float | None) -> float | None:
    earliest = None
    for moment in moments:
        if moment is not None and (earliest is None or moment < earliest):
            earliest = moment
    return earliest
