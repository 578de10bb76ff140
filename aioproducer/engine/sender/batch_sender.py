"""The batches that leave now, and the produce requests that carry them.

:meth:`BatchSender._send_to` lists the rules by which a batch leaves, and names the method that
keeps each one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from aioproducer.engine.accumulator import (
    Backlog,
    Backlogs,
    BatchPhase,
    BatchQueue,
    Flushes,
    MemoryQuota,
    ProducerBatch,
    RecordAccumulator,
)
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.records.builder import NO_PRODUCER_STATE, frame_batch
from aioproducer.engine.sender.compressor import Compressor
from aioproducer.engine.sender.produce import BatchBytes, ProduceRequest, ProduceSettings
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.foundation import tuning
from aioproducer.model import Node

if TYPE_CHECKING:
    from aioproducer.engine.network.network_client import NetworkClient
    from aioproducer.engine.transactions.manager import TransactionManager

_SENT: Final = BatchPhase.SENT


class BatchSender:
    """Sends ready batches to the leaders of their partitions.

    The responses go to :meth:`BatchCompleter.complete`. ``transactions``: None without a
    ``transactional_id``.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        sequence_numbers: SequenceNumbers,
        compressor: Compressor,
        settings: ProduceSettings,
        wakeup: Wakeup,
        transactions: TransactionManager | None = None,
    ) -> None:
        timing = accumulator.settings
        self._accumulator = accumulator
        self._batches: BatchQueue = accumulator.batches
        self._flushes: Flushes = accumulator.flushes
        self._memory_quota: MemoryQuota = accumulator.memory_quota
        self._backlogs: Backlogs = self._batches.backlogs
        self._client = client
        self._metadata = metadata
        self._sequence_numbers = sequence_numbers
        self._compressor = compressor
        self._settings = settings
        self._metrics: ProducerMetrics = client.metrics
        self._wakeup = wakeup
        self._transactions = transactions
        self._compressing: set[int] = set()
        """The nodes whose next batches are being compressed in a thread."""
        self._max_request_size: int = timing.max_request_size
        self._is_adaptive: bool = timing.linger is None
        self._linger: float = timing.adaptive_linger if timing.linger is None else timing.linger
        """The seconds that batches linger; if it is adaptive, those for a busy broker."""
        self._routes = accumulator.routes
        self._came = 0
        """The number of records that had come by this round, see :attr:`Routes.came`."""
        self._new = 0
        """The number of records that came since the round before."""
        self._gathering: set[int] = set()
        """The idle nodes whose batches wait for another iteration."""
        self._bytes = 0
        """The bytes of batches that were sent in this step."""

    @property
    def quiet(self) -> bool:
        """True without batches that may leave, now or after a backoff, or are being compressed."""
        backlogs = self._backlogs
        return not (self._compressing or backlogs.delayed or backlogs.nodes())

    def step(self, now: float) -> float | None:
        """Send the ready batches; those after many bytes leave in the next round, which is due now.

        Returns the time of the next round by the clock.

        No batch leaves without a producer id, to a node that the metadata lacks, or to one whose
        last batches are still being compressed. :meth:`_send_to` decides about the others.
        """
        backlogs: Backlogs = self._backlogs
        deadline = backlogs.release_delayed(now) if backlogs.delayed else None
        if backlogs.leaderless.partitions:
            for topic in sorted(backlogs.topics_without_leader()):
                self._metadata.use(topic, now)
                self._metadata.request_update(topic)
        backlogs.held = not self._sequence_numbers.usable
        if backlogs.held:
            return None
        came: int = self._routes.came
        self._new, self._came = came - self._came, came
        self._bytes = 0
        brokers = self._metadata.snapshot.brokers
        backlog: Backlog
        for node, backlog in [*backlogs.by_node.items()]:
            if not backlog.partitions:
                continue
            if node not in brokers:
                self._metadata.request_update()
            elif node not in self._compressing:
                due = self._send_to(brokers[node], backlog, now)
                if self._bytes >= tuning.BYTES_PER_STEP:
                    backlogs.begin_after(node)
                    return now
                if due is not None and (deadline is None or due < deadline):
                    deadline = due
        return deadline

    def _send_to(self, node: Node, backlog: Backlog, now: float) -> float | None:
        """Send the batches for ``node`` that may leave. Returns the time of the next attempt.

        A batch leaves if

        - its partition lets it: backoff, barrier, order, transaction (:meth:`Partition.line_up`);
        - the batches for its broker need not linger any more (:meth:`leaves_at`);
        - no more records are gathered for an idle broker (:meth:`_gathers`, without ``linger_ms``);
        - the broker takes a request (:meth:`NetworkClient.ready`);
        - the request has room for it, else it leaves with the next one (:meth:`Backlog.take`).
        """
        client, node_id = self._client, node.id
        while backlog.partitions and self._bytes < tuning.BYTES_PER_STEP:
            is_busy: bool = client.is_producing(node_id)
            due: float = self.leaves_at(backlog, is_busy, now)
            if due > now:
                return due
            if not is_busy and self._new and self._gathers(node_id, backlog, now):
                return now
            if self._gathering:
                self._gathering.discard(node_id)
            if not client.ready(node, now):
                if backlog.not_ready_since is None:
                    backlog.not_ready_since = now
                return client.not_before(node_id, now)
            backlog.not_ready_since = None
            batches = backlog.take(self._max_request_size, now)
            self._number(batches, now)
            if self._compressor.compresses:
                if self._compressor.is_much(batches):
                    self._compress_and_send(node_id, batches)
                    return None
                self._compressor.compress(batches)
                now = self._wakeup.clock()  # the broker has nothing to do with that time
            self._send(node_id, batches, now)
        return None

    def leaves_at(self, backlog: Backlog, is_busy: bool, now: float) -> float:
        """The time at which the batches of ``backlog`` need not linger any more, ``now`` or later.

        ``is_busy``: a produce request waits for a response of its broker. Then, by default, batches
        linger for a few milliseconds: the response brings callers that fill them. A lack of memory
        does not end that, because the response returns memory as well.
        """
        if self._is_adaptive:
            may_leave = not is_busy or self._is_urgent(backlog)
        else:
            may_leave = not self._linger or self._is_free_to_leave(backlog, now)
        return now if may_leave else max(now, backlog.oldest + self._linger)

    def _gathers(self, node: int, backlog: Backlog, now: float) -> bool:
        """True if batches for an idle ``node`` should wait another iteration of the event loop.

        By default they do while each iteration brings records: a request with several costs little
        more than one. A lone record is not kept waiting, nor is any for long.
        """
        if not self._is_adaptive:
            return False
        client = self._client
        if (
            self._new == 1
            and node not in self._gathering
            and not (client.total_in_flight and client.is_producing_anywhere())
        ):
            return False
        if now - backlog.oldest >= tuning.LONGEST_GATHERING or self._is_free_to_leave(backlog, now):
            return False
        self._gathering.add(node)
        return True

    def _is_free_to_leave(self, backlog: Backlog, now: float) -> bool:
        """True if the batches of ``backlog`` are urgent, or somebody waits for their memory."""
        return self._is_urgent(backlog) or self._memory_quota.is_awaited(backlog.node, now)

    def _is_urgent(self, backlog: Backlog) -> bool:
        """True if no record could join a batch of ``backlog``, or somebody waits for all of them.

        A batch there is full, a retry, was left out of the last request, or another one follows it;
        or there is a flush or a close.
        """
        return bool(backlog.is_due or self._accumulator.closing or self._flushes)

    def _number(self, batches: Sequence[ProducerBatch], now: float) -> None:
        used = ""
        batch: ProducerBatch
        for batch in batches:
            topic = batch.topic_partition.topic
            if topic != used:
                self._metadata.use(topic, now)
                used = topic
            if batch.state is NO_PRODUCER_STATE:
                count = batch.builder.count
                batch.state = self._sequence_numbers.stamp(batch.topic_partition, count)

    def _compress_and_send(self, node: int, batches: Sequence[ProducerBatch]) -> None:
        def send() -> None:
            self._compressing.discard(node)
            self._wakeup.wake()
            now = self._wakeup.clock.turn()  # a stop ages connections
            numbers = self._sequence_numbers
            left = [batch for batch in batches if not batch.done]
            current = all(numbers.is_current(each.topic_partition, each.state) for each in left)
            if left and current and self._client.can_send(node, now):
                self._send(node, left, now)
                return
            for batch in left:
                self._batches.put_back(batch, now, now)

        self._compressing.add(node)
        self._compressor.compress_elsewhere(batches, f"aioproducer-compress-{node}", send)

    def _send(self, node: int, batches: Sequence[ProducerBatch], now: float) -> None:
        """Send ``batches``, none of which has an outcome, in one request."""
        metrics: ProducerMetrics
        compressor, metrics = self._compressor, self._metrics
        topics = self._metadata.snapshot.topics
        encoded: list[BatchBytes] = []
        records: int = 0
        topic_ids: dict[str, UUID | None] = {}
        batch: ProducerBatch
        count: int
        for batch in batches:
            builder, topic = batch.builder, batch.topic_partition.topic
            if compressor.compresses:
                data = compressor.encode(batch)
            else:
                data = frame_batch(builder, batch.state, None, None)
            batch.enter(_SENT)
            batch.lent = type(data) is memoryview  # else it is a copy
            encoded += ((batch, data),)
            count, largest, queued = builder.count, builder.max_record_size, now - batch.created
            size: int = len(data)
            self._bytes += size
            metrics.batch_sent(topic, count, size, builder.position, largest, queued, now)
            records += count
            if topic not in topic_ids:
                topic_ids[topic] = topics[topic].topic_id if topic in topics else None
        metrics.request_built(records, now)
        request = ProduceRequest(
            encoded,
            self._settings.acks,
            self._settings.ack_timeout_ms,
            topic_ids,
            None if self._transactions is None else self._transactions.handle,
        )
        self._client.send(node, request, now)
