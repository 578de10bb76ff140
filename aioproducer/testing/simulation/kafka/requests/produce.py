"""Produce. Sources: Kafka's ``KafkaApis.handleProduceRequest`` and ``ReplicaManager``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.model import TopicPartition
from aioproducer.testing.simulation.kafka.batch import (
    NO_TIMESTAMP,
    Batch,
    RecordsError,
    check_batch,
    only_batch,
)
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked, Silence
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.partition import Partition
from aioproducer.testing.simulation.kafka.producer_state import Verification
from aioproducer.testing.simulation.kafka.requests.metadata import (
    current_leader,
    endpoints,
    led_partition,
    topic_of,
)

_FIRST_WITH_LEADER_HINT: Final = 10
_FIRST_WITH_ABORTABLE: Final = 11
_FIRST_THAT_ADDS_PARTITIONS: Final = 12
_RETRY_ADDING: Final = 0.02
_LAST_RETRY_OF_ADDING: Final = 0.1
"""Source: ``AddPartitionsToTxnConfig``: the broker repeats CONCURRENT_TRANSACTIONS for so long."""
_NO_LOG_START: Final = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
    )
)
"""Errors whose responses leave the start of the log open. Source: ``ReplicaManager``."""


@dataclass
class _Part:
    """One partition of the request, and what becomes of it."""

    topic: Any
    index: int
    partition: Partition | None = None
    batch: Batch | None = None
    code: ErrorCode = ErrorCode.NONE
    verified: Verification | None = None
    base_offset: int = -1
    log_append_time_ms: int = NO_TIMESTAMP
    log_start_offset: int = -1
    required_offset: int = 0
    leader_epoch: int = -1
    message: str | None = None
    errors: Sequence[Fields] = ()

    @property
    def where(self) -> TopicPartition:
        assert self.partition is not None
        return self.partition.where

    @property
    def pending(self) -> bool:
        """True if replicas have to follow."""
        return self.required_offset > 0 and not self.code

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        self.code, self.message = code, message
        self.base_offset = -1


def produce(call: Call) -> Answer:
    """Append the batches of a request, and wait for the replicas if it says so."""
    return _Produce(call).answer()


@dataclass
class _Produce:
    """One request on its way into the logs."""

    call: Call
    parts: list[_Part] = field(default_factory=list)

    def answer(self) -> Answer:
        body = self.call.body
        for topic in body.topic_data:
            self.parts += [self._read(topic, each) for each in topic.partition_data]
        transactional = any(each.batch and each.batch.transactional for each in self.parts)
        if transactional and body.transactional_id is None:
            for each in self.parts:
                each.fail(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return self._response()
        if body.acks not in (-1, 0, 1):
            for each in self.parts:
                each.fail(each.code or ErrorCode.INVALID_REQUIRED_ACKS)
            return self._response()
        return self._verify(self.call.now) or self._verify_later()

    # --- reading ---------------------------------------------------------------------------

    def _read(self, topic: Any, data: Any) -> _Part:
        part = _Part(topic, int(data.index))
        found, code = topic_of(self.call, topic)
        if found is None:
            part.fail(code)
            return part
        part.partition, code = led_partition(self.call, found, part.index)
        if part.partition is None:
            part.fail(code)
            return part
        try:
            part.batch = only_batch(data.records, self.call.version)
        except RecordsError as error:
            part.fail(error.code, str(error))
            return part
        if code or found.internal:
            part.fail(code or ErrorCode.INVALID_TOPIC_EXCEPTION)
        return part

    # --- the coordinator's word ------------------------------------------------------------

    def _verify(self, now: float, *, last: bool = False) -> Answer | None:
        """Ask the coordinator about the transaction; None: it must be asked again."""
        unverified = []
        for part in self.parts:
            batch, partition = part.batch, part.partition
            if part.code or batch is None or partition is None or not batch.transactional:
                continue
            if not partition.producers.has_transaction(batch.producer_id, batch.producer_epoch):
                part.verified = partition.producers.start_verification(
                    batch, adds_partitions=self._adds
                )
                unverified.append(part)
        if unverified:
            batch = unverified[0].batch
            assert batch is not None
            codes = self.call.coordinators.transactions.verify(
                self.call.body.transactional_id,
                batch.producer_id,
                batch.producer_epoch,
                [part.where for part in unverified],
                add=self._adds,
                now=now,
            )
            if self._adds and not last and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values():
                return None
            for part in unverified:
                if code := codes[part.where]:
                    part.fail(self._verification_error(code))
        return self._append(now)

    @property
    def _adds(self) -> bool:
        """The partitions join the transaction by this request (KIP-890)."""
        return self.call.version >= _FIRST_THAT_ADDS_PARTITIONS

    def _verification_error(self, code: ErrorCode) -> ErrorCode:
        """Sources: ``AddPartitionsToTxnManager``, ``ReplicaManager.handleProduceAppend``."""
        match code:
            case ErrorCode.PRODUCER_FENCED:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            case ErrorCode.TRANSACTION_ABORTABLE if self.call.version < _FIRST_WITH_ABORTABLE:
                return ErrorCode.INVALID_TXN_STATE
            case ErrorCode.CONCURRENT_TRANSACTIONS if self._adds:
                return code
            case (
                ErrorCode.CONCURRENT_TRANSACTIONS
                | ErrorCode.NETWORK_EXCEPTION
                | ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                | ErrorCode.COORDINATOR_NOT_AVAILABLE
                | ErrorCode.NOT_COORDINATOR
            ):
                return ErrorCode.NOT_ENOUGH_REPLICAS
        return code

    def _verify_later(self) -> Answer:
        begin = self.call.now
        deadline = begin + _LAST_RETRY_OF_ADDING
        later: list[Answer] = []

        def complete(now: float) -> Answer | None:
            if not later:
                answer = self._verify(now, last=now >= deadline)
                if answer is None:
                    return None
                later.append(answer)
            return later[0]

        steps = round(_LAST_RETRY_OF_ADDING / _RETRY_ADDING)
        return Parked(
            complete, deadline, tuple(begin + step * _RETRY_ADDING for step in range(1, steps))
        )

    # --- the log ---------------------------------------------------------------------------

    def _append(self, now: float) -> Answer:
        body = self.call.body
        for part in self.parts:
            partition = part.partition
            if partition is None:
                continue
            if not part.code and partition.leader != self.call.broker:
                part.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            if not part.code:
                self._append_to(part, partition, now)
                if part.code not in _NO_LOG_START:
                    part.log_start_offset = partition.log.start_offset
        if not any(part.pending for part in self.parts):
            return self._response()
        deadline = now + body.timeout_ms / 1000

        def complete(time: float) -> Answer | None:
            for part in self.parts:
                if part.pending:
                    self._follow(part, expired=time >= deadline)
            return None if any(part.pending for part in self.parts) else self._response()

        return complete(now) or Parked(complete, deadline)

    def _append_to(self, part: _Part, partition: Partition, now: float) -> None:
        assert part.batch is not None
        acks, now_ms = self.call.body.acks, int(now * 1000)
        if partition.lacks_replicas(acks):
            part.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
            return
        try:
            check_batch(part.batch, partition.config, now_ms)
        except RecordsError as error:
            part.fail(error.code, str(error) if error.records else None)
            part.errors = [{"batch_index": place} for place in error.records]
            return
        done = partition.append(part.batch, part.verified, now_ms)
        if done.repeated and self.call.cluster.options.names_duplicates:
            part.fail(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
            return
        part.code = done.code
        part.base_offset = done.base_offset
        part.log_append_time_ms = done.log_append_time_ms
        part.leader_epoch = partition.leader_epoch
        part.required_offset = done.required_offset if acks == -1 else 0
        self.call.cluster.replicate(partition, now)

    def _follow(self, part: _Part, *, expired: bool) -> None:
        assert part.partition is not None
        code = part.partition.reached(self.call.broker, part.leader_epoch, part.required_offset)
        if code is None:
            if not expired:
                return
            code = ErrorCode.REQUEST_TIMED_OUT
        part.required_offset = 0
        part.code = code

    # --- the response ----------------------------------------------------------------------

    def _response(self) -> Answer:
        failed = any(part.code for part in self.parts)
        if self.call.body.acks == 0:
            return Silence.CLOSED if failed else Silence.UNANSWERED
        moved: set[int] = set()
        rows = []
        for topic in self.call.body.topic_data:
            parts = [self._row(part, moved) for part in self.parts if part.topic is topic]
            row: dict[str, Any] = {"partition_responses": parts}
            row |= {"name": topic.name, "topic_id": topic.topic_id}
            rows.append(row)
        return {"responses": rows, "node_endpoints": endpoints(self.call, moved)}

    def _row(self, part: _Part, moved: set[int]) -> Fields:
        row: dict[str, Any] = {
            "index": part.index,
            "error_code": part.code,
            "base_offset": part.base_offset,
            "log_append_time_ms": part.log_append_time_ms,
            "log_start_offset": part.log_start_offset,
            "record_errors": part.errors,
            "error_message": part.message,
        }
        hinted = self.call.version >= _FIRST_WITH_LEADER_HINT
        if hinted and part.code == ErrorCode.NOT_LEADER_OR_FOLLOWER and part.partition is not None:
            moved.add(part.partition.leader)
            row["current_leader"] = current_leader(part.partition)
        return row
