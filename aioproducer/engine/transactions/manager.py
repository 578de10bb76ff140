"""The transactional producer as a state machine. No I/O, no clock.

The manager takes the users' calls (``begin``, ``commit``, …), the outcomes of batches and the
responses of coordinators. It gives the next request to send, and says which batches may leave.

Rules that it keeps:

- No batch leaves before its partition is in the transaction. ``Partition.line_up`` asks for it with
  each batch that begins (``Transaction.add_partition``). In version 1 of the protocol
  ``TransactionDriver`` sends a request that adds the partition, in version 2 the batch itself does.
- The end is requested when every batch has its outcome, and every offset is written. So nothing of
  a transaction comes after its end (with version 1 a batch that was given up on its way may, as
  in Kafka).
- One request is sent at a time. A request without a response is sent again: a coordinator takes
  the same end twice for one.
- After a failure the next transaction has a new epoch, so nothing that is still on its way from the
  failed one can be written into it. Version 2 gives every transaction one (KIP-890), version 1
  requests it (KIP-360).

Source: Kafka 4's ``TransactionManager`` (KIP-98, KIP-360, KIP-447, KIP-890). Other than there, an
abort does not send a batch again that a broker did not take. With version 1 it sends a batch again
that may be in the log: its response is the only proof that nothing of it comes after the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from aioproducer.engine.transactions import errors
from aioproducer.engine.transactions.requests import (
    CoordinatorRequest,
    EndTxn,
    FindCoordinator,
    InitProducerId,
    Reaction,
    RequestSource,
    Response,
)
from aioproducer.engine.transactions.sequence_numbers import SequenceNumbers
from aioproducer.engine.transactions.transaction import (
    TRANSITIONS,
    Ending,
    PendingOffsets,
    Transaction,
)
from aioproducer.engine.transactions.transaction import TransactionState as State
from aioproducer.errors import (
    InvalidTxnStateError,
    KafkaError,
    ProducerError,
    ProducerFencedError,
)
from aioproducer.foundation.logs import ModuleLogger
from aioproducer.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)

if TYPE_CHECKING:
    from aioproducer.engine.accumulator import ProducerBatch

logger = ModuleLogger("aioproducer.transactions.manager")


def epoch_began(who: object, handle: TransactionHandle) -> None:
    """A coordinator assigned the producer id and the epoch of ``handle``."""
    logger.repeated(
        logging.INFO,
        "epoch",
        "%s: producer id %d with epoch %d was assigned",
        who,
        handle.producer_id,
        handle.epoch,
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        epoch=handle.epoch,
    )


def failed_for_good(who: object, handle: TransactionHandle, error: ProducerError) -> None:
    """The producer can't continue."""
    logger.error(
        "%s: no further transaction is possible: %s",
        who,
        error,
        transactional_id=handle.transactional_id,
        error=error,
    )


def closed_after_failure(who: object, handle: TransactionHandle, error: ProducerError) -> None:
    """The producer was closed when its transaction could only be aborted."""
    logger.error(
        "%s: closed when its transaction had failed: %s",
        who,
        error,
        transactional_id=handle.transactional_id,
        error=error,
    )


def state_changed(who: object, before: str, after: str) -> None:
    """The state machine went on."""
    if logger.debugs:
        logger.debug("%s: %s -> %s", who, before, after)


class TransactionManager(RequestSource):
    """The state of one transactional producer. ``joined``: it takes part in another's transaction.

    A joined producer neither aborts that transaction unasked nor begins another one.
    ``timeout_ms``: ``transaction_timeout_ms``. The coordinator measures it, and aborts a longer
    transaction; the error of the next batch or request says so.
    """

    def __init__(
        self,
        transactional_id: str,
        sequence_numbers: SequenceNumbers,
        timeout_ms: int,
        joined: TransactionHandle | None = None,
    ) -> None:
        super().__init__(f"transactional id {transactional_id!r}")
        self.state = State.UNINITIALIZED
        self.state_changes = 0
        """The number of changes of the state."""
        self.transaction: Transaction | None = None
        """The open transaction; None: no one has begun since the last one ended."""
        self.begun = 0
        """The number of transactions that have begun, and so that of the present one."""
        self.ending: Ending | None = None
        """The last commit or abort."""
        self.handle = TransactionHandle(transactional_id, -1, -1, 1)
        """The producer's identity in the open transaction, or in the next one."""
        self.offered_version = 1
        """The version that :meth:`offer` has chosen."""
        self.joined = joined is not None
        self.on_request: Callable[[], None] = lambda: None
        """Called when a batch waits for :meth:`next_request`."""
        self.on_state: Callable[[State], None] = lambda _: None
        """Called with each new state."""
        self._sequence_numbers = sequence_numbers
        self._timeout_ms = timeout_ms
        self._fatal_error: ProducerError | None = None
        self._epoch_spent = False
        """A failure happened in the epoch: the next transaction needs another one."""
        self._end_on_its_way = False
        """An EndTxn was sent, and has neither a response nor an error yet."""
        self._left = False
        """The producer is closed: no caller aborts a transaction that fails."""
        if joined is not None:
            self.handle = joined
            sequence_numbers.begin_epoch(joined.producer_id, joined.epoch)
            self.transaction = Transaction(joined, shared=True, handed_out=True)
            self.state = State.IN_TRANSACTION

    def offer(self, levels: Mapping[str, int]) -> None:
        """Choose version 1 or 2 of the protocol (KIP-890) by the features of the cluster.

        An open transaction goes on with its version. The chosen one begins when the transaction has
        ended, or when an epoch is assigned. A higher one needs a new epoch first.
        """
        self.offered_version = 2 if levels.get("transaction.version", 0) >= 2 else 1

    # --- users' calls ----------------------------------------------------------------------

    def initialize(self) -> None:
        """Get the producer id and an epoch; the transactional id's owner before is fenced."""
        self._require("initialize transactions", State.UNINITIALIZED)
        self._go(State.INITIALIZING)

    def begin(self, *, shared: bool = False) -> bool:
        """Open a transaction; False: not yet, for it first gets an epoch that nobody has used."""
        self._require("begin a transaction", State.READY)
        if self.joined:
            raise errors.joined_has_ended(self, own=self.begun > 0)
        if shared and not self._sequence_numbers.fresh:
            self._go(State.INITIALIZING)
            return False
        self.transaction = Transaction(self.handle, shared=shared)
        self.begun += 1
        self._go(State.IN_TRANSACTION)
        return True

    def commit(self) -> Ending:
        """Request the commit; it comes when every record is delivered."""
        self._require("commit", State.IN_TRANSACTION)
        self._go(State.COMMITTING)
        self.ending = Ending(committed=True)
        return self.ending

    def abort(self) -> Ending:
        """Request the abort; it comes when no record is on its way any more."""
        if self.state is not State.ABORTABLE_ERROR:
            self._require("abort", State.IN_TRANSACTION)
        self._open_transaction.discard_pending()
        self._go(State.ABORTING)
        self.ending = Ending(committed=False)
        return self.ending

    @property
    def is_open(self) -> bool:
        """True if a transaction is open, and no call has begun to end it."""
        return self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR)

    def leave(self) -> bool:
        """The producer is closed: its transaction is aborted, now or as soon as its commit fails,
        unless another producer ends it. True: it is aborted now."""
        self._left = not self.joined
        if not (self._left and self.is_open):
            return False
        self.abort().acknowledged = True
        return True

    def hand_out(self, *, over: bool = False) -> TransactionHandle:
        """The open transaction, for others to write into it.

        ``over``: from now on it is theirs, and this producer only takes part in it.
        """
        self.check_open("hand out a transaction")
        if not self._open_transaction.shared:
            raise errors.not_shared(self)
        self._open_transaction.handed_out = True
        self.joined = self.joined or over
        return self.handle

    def add_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        topic_ids: Mapping[str, UUID],
    ) -> PendingOffsets:
        """Write ``offsets`` with the transaction; see :meth:`is_written`.

        ``topic_ids``: those of all topics, or none.
        """
        self.check_open("send offsets")
        return self._open_transaction.add_offsets(offsets, group, topic_ids)

    def is_written(self, pending: PendingOffsets) -> bool:
        """True if the offsets are written. Raises the reason if they will not be."""
        if not pending.written and self.state not in (State.IN_TRANSACTION, State.COMMITTING):
            raise self.refusal("send offsets")
        return pending.written

    # --- errors of calls -------------------------------------------------------------------

    @property
    def error(self) -> ProducerError | None:
        """The error that ended the producer, or that the transaction can only be aborted for."""
        if self._fatal_error is not None or self.transaction is None:
            return self._fatal_error
        return self.transaction.error

    @property
    def abortable_error(self) -> ProducerError | None:
        """The error for which the open transaction can only be aborted; None: there is none."""
        return self.error if self.state is State.ABORTABLE_ERROR else None

    @property
    def final_error(self) -> ProducerError | None:
        """The reason that no transaction can begin any more; None: one can, or is open."""
        if self.joined and self.state is State.READY:
            return errors.joined_has_ended(self, own=self.begun > 0)
        return self._fatal_error

    def check_open(self, doing: str = "send") -> None:
        """Raise the reason if nothing can be written now."""
        self._require(doing, State.IN_TRANSACTION)

    def check_alive(self, doing: str) -> None:
        """Raise the reason if the producer was refused, or has no identity yet."""
        if self.state is State.FATAL_ERROR or self.handle.producer_id < 0:
            raise self.refusal(doing)

    def refusal(self, doing: str) -> ProducerError:
        """The error to raise if ``doing`` is not possible now."""
        if self.state in (State.FATAL_ERROR, State.ABORTABLE_ERROR):
            assert self.error is not None
            return self.failure(doing, self.error)
        between = self.state is State.INITIALIZING and self.handle.producer_id >= 0
        return errors.wrong_state(self, doing, State.READY if between else self.state)

    def failure(self, doing: str, cause: ProducerError) -> ProducerError:
        """The error to raise if ``doing`` failed because of ``cause``."""
        if self.state is State.FATAL_ERROR:
            return errors.fatal(self, doing, cause, self.ending)
        return errors.abortable(self, doing, cause)

    # --- batches ---------------------------------------------------------------------------

    def add_partition(self, topic_partition: TopicPartition) -> bool:
        """Let batches into a partition: True if they may leave, False if it is added first."""
        if self.transaction is None:
            return False
        may_leave = self.transaction.add_partition(topic_partition)
        if not may_leave:
            self.on_request()
        return may_leave

    def contains(self, topic_partition: TopicPartition) -> bool:
        """True if ``topic_partition`` is in the transaction."""
        return self.transaction is not None and self.transaction.contains(topic_partition)

    def delivery_failed(self, error: ProducerError, *, refused: bool = False) -> None:
        """A record failed, or ``send()`` ``refused`` it: see :func:`errors.state_after`."""
        match errors.state_after(error, refused=refused):
            case State.FATAL_ERROR:
                self.fail(error)
            case State.ABORTABLE_ERROR:
                self._require_abort(error)

    def numbers_lost(self) -> None:
        """A numbered batch was given up, so the numbers after it no longer fit."""
        self._epoch_spent = True

    @property
    def ends_the_epoch(self) -> bool:
        """True if nothing can be written late, for the end of the transaction ends its epoch."""
        return self.handle.version > 1

    @property
    def discards_unsent(self) -> bool:
        """True if records that have not left are not sent any more."""
        return self.state in (State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR)

    @property
    def discard_error(self) -> ProducerError | None:
        """The error of records that are not sent any more; None: they are sent.

        So fail all records that have not left when the transaction is aborted, or can only be.
        Those that :meth:`must_complete` get their own outcome first: those in flight, and with
        version 1 of the protocol those that may have been written.
        """
        if not self.discards_unsent:
            return None
        if self.state is State.FATAL_ERROR:
            return self.refusal("send")
        return errors.discarded(self.error)

    def must_complete(self, batch: ProducerBatch) -> bool:
        """True if the transaction may not end before ``batch`` has the outcome of an attempt."""
        return batch.in_flight or (batch.uncertain and not self.ends_the_epoch)

    def leave_cluster(self, error: ProducerError) -> bool:
        """Another cluster answers, where nobody knows the producer id: fail with ``error``.

        Returns False if the producer has no id yet: it gets one there.
        """
        self._coordinators.clear()
        if self.handle.producer_id < 0:
            return False
        if self._end_on_its_way and self.ending is not None and self.ending.open:
            self.ending.may_be_done = True
        self.fail(error)
        return True

    # --- requests --------------------------------------------------------------------------

    def complete_unknown(self, *, flushed: bool) -> None:
        """Complete the end of a transaction that no coordinator knows of.

        ``flushed``: every record has its outcome.
        """
        if not flushed or self.state not in (State.COMMITTING, State.ABORTING):
            return
        if not self._needs_end and not self._open_transaction.has_pending_offsets:
            self._ended()

    @property
    def _needs_end(self) -> bool:
        """True if EndTxn must be sent: the coordinator, or another producer, may know of it.

        With version 2 the first batch tells the coordinator. Each transaction has its own epoch, so
        a batch has left if one has a number of it.
        """
        has_numbers = self.ends_the_epoch and not self._sequence_numbers.fresh
        return has_numbers or self._open_transaction.needs_end

    def next_request(self, *, flushed: bool) -> CoordinatorRequest | None:
        """The request to send now, if any. ``flushed``: every record has its outcome.

        Valid when no request is in flight, until the state changes.
        """
        request = self._next_step(flushed)
        return None if request is None else self._with_coordinator(request)

    def _next_step(self, flushed: bool) -> CoordinatorRequest | None:
        """The next request, whether its coordinator is known or not."""
        match self.state:
            case State.INITIALIZING:
                bump = self.handle.producer_id >= 0
                return InitProducerId(bump, timeout_ms=self._timeout_ms, producer=self.handle)
            case State.IN_TRANSACTION:
                return self._open_transaction.next_request()
            case State.COMMITTING:
                request = self._open_transaction.next_request()
                if request is None and flushed:
                    return EndTxn(committed=True, producer=self.handle)
                return request
            case State.ABORTING if flushed:
                return EndTxn(committed=False, producer=self.handle)
        return None

    def sent(self, request: CoordinatorRequest) -> None:
        """``request`` is on its way."""
        if self.transaction is not None:
            self.transaction.sent(request)
        self._end_on_its_way = isinstance(request, EndTxn)

    def unreachable(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """See :meth:`RequestSource.unreachable`. ``request`` is not on its way (any more)."""
        self._end_on_its_way = False
        super().unreachable(request, error)

    def response_lost(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` was sent, and ``error`` leaves open whether it was read, or will be.

        With version 1 a request that is read late would change or end the next transaction of its
        epoch.
        """
        if not self.ends_the_epoch and not isinstance(request, FindCoordinator | InitProducerId):
            self._epoch_spent = True
        if isinstance(request, EndTxn) and self.ending is not None:
            self.ending.may_be_done = True
        super().response_lost(request, error)

    def handle_response(
        self, request: CoordinatorRequest, response: Response, broker: str
    ) -> Reaction:
        """See :meth:`RequestSource.handle_response`. After a fatal error no response counts."""
        if self.state is State.FATAL_ERROR:
            return Reaction.FATAL
        self._end_on_its_way = False
        reaction = super().handle_response(request, response, broker)
        if isinstance(request, EndTxn) and isinstance(self.last_error, request.leaves_open):
            assert self.ending is not None
            self.ending.may_be_done = True
        return reaction

    def request_failed(self, request: CoordinatorRequest, error: ProducerError) -> None:
        """``request`` can't be sent."""
        self.fail(error)

    def _succeeded(self, request: CoordinatorRequest, response: Response) -> None:
        match request:
            case InitProducerId():
                self._begin_epoch(response)
                self.handle = replace(self.handle, version=self.offered_version)
                self._go(State.READY)
            case EndTxn():
                if response.producer_id >= 0:
                    self._begin_epoch(response)
                self._ended()
            case _ if self.transaction is not None:
                self.transaction.succeeded(request)

    def _refused(self, request: CoordinatorRequest, error: KafkaError, reaction: Reaction) -> None:
        if reaction is Reaction.FENCED:
            self.fail(ProducerFencedError(str(error)))
        elif reaction is Reaction.FATAL:
            self.fail(error)
        elif isinstance(request, EndTxn):
            self._not_ended(request, error)
        else:
            self._require_abort(error)

    def _begin_epoch(self, response: Response) -> None:
        self.handle = replace(self.handle, producer_id=response.producer_id, epoch=response.epoch)
        self._sequence_numbers.begin_epoch(response.producer_id, response.epoch)
        epoch_began(self, self.handle)
        self._epoch_spent = False

    def _not_ended(self, request: EndTxn, error: KafkaError) -> None:
        """The coordinator has no such transaction open: it can't be committed.

        An abort is done with that, or a new epoch will make it so; but a transaction that others
        take part in may have been committed by them.
        """
        if request.committed:
            self._require_abort(error)
            return
        if self._open_transaction.handed_out and isinstance(error, InvalidTxnStateError):
            assert self.ending is not None
            self.ending.error = errors.not_open(self, error)
        self._epoch_spent = True
        self._ended()

    # --- states ----------------------------------------------------------------------------

    @property
    def _open_transaction(self) -> Transaction:
        assert self.transaction is not None
        return self.transaction

    def _ended(self) -> None:
        """The transaction has ended: go to the state that the next one needs."""
        assert self.ending is not None
        self.ending.done = self.ending.error is None
        if self._open_transaction.leaves_epoch_used:
            self._epoch_spent = True
        self.transaction = None
        # Partitions added under version 1 must not count as such under version 2 (KIP-890).
        raised = self.offered_version > self.handle.version
        if (self._epoch_spent or raised) and not self.joined:
            self._go(State.INITIALIZING)
        else:
            self.handle = replace(self.handle, version=self.offered_version)
            self._go(State.READY)

    def _require_abort(self, error: ProducerError) -> None:
        """Nothing but an abort is possible because of ``error``."""
        self._epoch_spent = True
        if self.state is State.INITIALIZING:
            self.fail(error)  # there is nothing to abort, and a retry would get the same
        elif self.state in (State.IN_TRANSACTION, State.COMMITTING):
            self._open_transaction.error = error
            if self.state is State.COMMITTING and self.ending is not None:
                self.ending.fail(error)
            self._go(State.ABORTABLE_ERROR)
            if self._left:
                closed_after_failure(self, self.handle, error)
                self.abort().acknowledged = True

    def fail(self, error: ProducerError) -> None:
        """The producer can't continue."""
        if self.state is not State.FATAL_ERROR:
            self._fatal_error = error
            failed_for_good(self, self.handle, error)
            self._go(State.FATAL_ERROR)
            if self.ending is not None:
                self.ending.fail(error)

    def _require(self, doing: str, state: State) -> None:
        if self.state is not state:
            raise self.refusal(doing)

    def _go(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        state_changed(self, self.state.name, state.name)
        self.state = state
        self.state_changes += 1
        self.on_state(state)
