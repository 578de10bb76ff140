"""The transactional producer as a state machine. No I/O, no clock.

The owner of a :class:`TransactionManager` tells it the users' calls (``begin``, ``commit``, …), the
outcomes of batches and the answers of coordinators. It gives the next question to ask, and says
which batches may leave.

Rules that it keeps:

- No batch leaves before its partition is in the transaction. In version 1 of the protocol it is
  taken in by a question, in version 2 by the batch itself.
- The end is asked for when every batch has its outcome, and every offset is written. So nothing of
  a transaction comes behind its end (with version 1 a batch that was given up on its way may, as
  in Kafka).
- One question is asked at a time. A question without an answer is asked again: a coordinator takes
  the same end twice for one.
- After a failure the next transaction has a new epoch, so nothing that is still on its way from the
  failed one can be written into it. Version 2 gives every transaction one (KIP-890), version 1
  asks for it (KIP-360).

Source: Kafka 4's ``TransactionManager`` (KIP-98, KIP-360, KIP-447, KIP-890). Other than there, an
abort does not send a batch again that a broker did not take. With version 1 it sends a batch again
that may be in the log: its answer is the only proof that nothing of it comes behind the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from aioproducer.errors import (
    AbortableTransactionError,
    Disposition,
    FatalTransactionError,
    IllegalStateError,
    InvalidPartitionError,
    InvalidTimestampError,
    InvalidTopicError,
    InvalidTxnStateError,
    KafkaError,
    ProducerBrokenError,
    ProducerClosedError,
    ProducerError,
    ProducerFencedError,
    SerializationError,
    TransactionAbortedError,
    UnsupportedVersionError,
)
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.transactions.questions import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    Coordinator,
    EndTransaction,
    FindCoordinator,
    InitProducerId,
    Question,
    coordinator_for,
)
from aioproducer.transactions.sequence_numbers import SequenceNumbers
from aioproducer.transactions.states import TRANSITIONS, TransactionState
from aioproducer.transactions.verdicts import Verdict, error_in, judge

logger = logging.getLogger(__name__)

_S = TransactionState

_ADVICE: Final = {
    _S.UNINITIALIZED: "`await producer.init_transactions()` first (start() does it)",
    _S.INITIALIZING: "`await producer.init_transactions()` first (start() does it)",
    _S.READY: "begin one: `async with producer.transaction():` or begin_transaction()",
    _S.IN_TRANSACTION: "end it first: commit_transaction() or abort_transaction()",
    _S.COMMITTING: "it can't be taken back: `await producer.commit_transaction()` to its end",
    _S.ABORTING: "`await producer.abort_transaction()` to its end",
    _S.ABORTABLE_ERROR: "abort_transaction(), then begin another one",
    _S.FATAL_ERROR: "close the producer",
}


MISUSE: Final = (
    SerializationError,
    InvalidTopicError,
    InvalidPartitionError,
    InvalidTimestampError,
)
"""The errors about wrong arguments of ``send()``: Java throws them, too, and the transaction goes
on without the record."""


@dataclass(slots=True)
class Ending:
    """A commit or an abort that was asked for."""

    committed: bool
    done: bool = False
    error: ProducerError | None = None
    """The reason that it was not done."""
    may_be_done: bool = False
    """It was asked for once without an answer, so it may be done in spite of an error."""
    told: bool = False
    """True if the caller knows the outcome; else (cancelled, timed out) the next call tells it."""

    @property
    def open(self) -> bool:
        """True while it has no outcome."""
        return not self.done and self.error is None


@dataclass(slots=True, eq=False)
class PendingOffsets:
    """Consumed offsets that were asked to be written."""

    question: CommitOffsets
    written: bool = False


class TransactionManager:
    """The state of one transactional producer. ``joined``: it takes part in another's transaction.

    A joined producer neither aborts that transaction unasked nor begins another one.
    """

    def __init__(
        self,
        transactional_id: str,
        identity: SequenceNumbers,
        joined: TransactionHandle | None = None,
    ) -> None:
        self.state = _S.UNINITIALIZED
        self.moves = 0
        """The number of changes of the state."""
        self.error: ProducerError | None = None
        """The error that doomed the transaction or the producer."""
        self.ending: Ending | None = None
        """The last commit or abort."""
        self.handle = TransactionHandle(transactional_id, -1, -1, 1)
        """The asker's identity in the open transaction, or in the next one."""
        self.offered_version = 1
        """The protocol that the brokers have now; it is taken on between transactions."""
        self.begun = 0
        """The number of transactions that have begun, and so that of the present one."""
        self.answer_before: KafkaError | None = None
        """The error of the last answer; None: it had none."""
        self.obstacle: ProducerError | None = None
        """The last known reason that there is no answer yet."""
        self.joined = joined is not None
        self.shared = self.joined
        """Others may write into the open transaction too."""
        self.handed_out = self.joined
        """Others have its handle, so its end is asked for whether we wrote or not."""
        self._identity = identity
        self._coordinators: dict[Coordinator, Node] = {}
        self._partitions: set[TopicPartition] = set()
        self._outside: set[TopicPartition] = set()
        """The partitions to be taken into the transaction (version 1)."""
        self._groups: set[str] = set()
        self._offsets: list[PendingOffsets] = []
        self._started = False
        """The coordinator may know of the transaction, so it must be told of its end."""
        self._epoch_spent = False
        """Something failed in the epoch: the next transaction needs another one."""
        if joined is not None:
            self.handle = joined
            identity.begin_epoch(joined.producer_id, joined.epoch)
            self.state = _S.IN_TRANSACTION

    # --- what users want -------------------------------------------------------------------

    def initialize(self) -> None:
        """Get the producer id and an epoch; the transactional id's owner before is fenced."""
        self._require("initialize transactions", _S.UNINITIALIZED)
        self._go(_S.INITIALIZING)

    def begin(self, *, shared: bool = False) -> bool:
        """Open a transaction; False: not yet, for it first gets an epoch that nobody has used."""
        self._require("begin a transaction", _S.READY)
        if self.joined:
            did = "handed its transaction over" if self.begun else "joined one transaction"
            raise IllegalStateError(
                f"{self}: this producer {did}, which has ended; make another one"
            )
        if shared and not self._identity.fresh:
            self._go(_S.INITIALIZING)
            return False
        self.shared = shared
        self.begun += 1
        self._go(_S.IN_TRANSACTION)
        return True

    def commit(self) -> Ending:
        """Ask for the commit; it comes when every record is delivered."""
        self._require("commit", _S.IN_TRANSACTION)
        return self._end(Ending(committed=True), _S.COMMITTING)

    def abort(self) -> Ending:
        """Ask for the abort; it comes when no record is on its way any more."""
        if self.state is not _S.ABORTABLE_ERROR:
            self._require("abort", _S.IN_TRANSACTION)
        self._outside.clear()
        self._offsets.clear()
        return self._end(Ending(committed=False), _S.ABORTING)

    def abort_if_failed(self) -> None:
        """Abort a transaction that can only be aborted, and that nobody asks about any more."""
        if self.state is _S.ABORTABLE_ERROR:
            logger.error("%s: closed when its transaction had failed: %s", self, self.error)
            self.abort().told = True

    def _end(self, ending: Ending, state: TransactionState) -> Ending:
        self.ending = ending
        self._go(state)
        return ending

    def hand_out(self, *, over: bool = False) -> TransactionHandle:
        """The open transaction, for others to write into it.

        ``over``: from now on it is theirs, and this producer only takes part in it.
        """
        self.check_open("hand out a transaction")
        if not self.shared:
            raise IllegalStateError(
                f"{self}: the transaction was not begun for others; begin it with "
                "producer.transaction(shared=True)"
            )
        self.handed_out = True
        self.joined = self.joined or over
        return self.handle

    def add_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> PendingOffsets:
        """Ask for ``offsets`` to be written with the transaction; see :meth:`is_written`."""
        self._require("send offsets", _S.IN_TRANSACTION)
        pending = PendingOffsets(CommitOffsets(offsets, group))
        self._offsets.append(pending)
        return pending

    def is_written(self, pending: PendingOffsets) -> bool:
        """True if the offsets are written. Raises the reason if they will not be."""
        if not pending.written and self.state not in (_S.IN_TRANSACTION, _S.COMMITTING):
            raise self.refusal("send offsets")
        return pending.written

    def contains(self, partition: TopicPartition) -> bool:
        """True if ``partition`` is in the transaction."""
        return partition in self._partitions

    def check_open(self, doing: str = "send") -> None:
        """Raise the reason if nothing can be written now."""
        if self.state is not _S.IN_TRANSACTION:
            raise self.refusal(doing)

    def check_alive(self, doing: str) -> None:
        """Raise the reason if the producer was refused, or has no identity yet."""
        if self.state is _S.FATAL_ERROR or self.handle.producer_id < 0:
            raise self.refusal(doing)

    def refusal(self, doing: str) -> ProducerError:
        """The error to raise if ``doing`` is not possible now."""
        if self.state in (_S.FATAL_ERROR, _S.ABORTABLE_ERROR):
            assert self.error is not None
            return self.failure(doing, self.error)
        between = self.state is _S.INITIALIZING and self.handle.producer_id >= 0
        state = _S.READY if between else self.state
        now = "no transaction is open" if state is _S.READY else state.value
        return IllegalStateError(f"{self}: can't {doing}, {now}; {_ADVICE[state]}")

    def failure(self, doing: str, cause: ProducerError) -> ProducerError:
        """The error to raise if ``doing`` failed because of ``cause``."""
        error: ProducerError
        if self.state is _S.FATAL_ERROR:
            kind: type[ProducerError] = FatalTransactionError
            if isinstance(cause, ProducerFencedError):
                kind = ProducerFencedError
            ending = self.ending
            unknown = ""
            if ending is not None and ending.committed and ending.may_be_done and not ending.done:
                unknown = ". It was asked for before without an answer, and may have been committed"
            error = kind(f"{self}: can't {doing}: {cause}{unknown}. {_ADVICE[_S.FATAL_ERROR]}")
        else:
            error = AbortableTransactionError(
                f"{self}: can't {doing}, the transaction can only be aborted: {cause}. "
                f"{_ADVICE[_S.ABORTABLE_ERROR]}"
            )
        error.__cause__ = cause
        return error

    def __str__(self) -> str:
        return f"transactional id {self.handle.transactional_id!r}"

    # --- batches ---------------------------------------------------------------------------

    def admits(self, partition: TopicPartition) -> bool:
        """True if batches may leave for ``partition``; if not, it will be taken in."""
        if partition in self._partitions:
            return True
        if self.handle.version == 1:
            self._outside.add(partition)
            return False
        self._partitions.add(partition)
        self._started = True
        return True

    def batch_failed(self, error: ProducerError) -> None:
        """A batch, or a record in line for one, failed: the transaction can't be committed."""
        if isinstance(error, TransactionAbortedError | ProducerClosedError | ProducerBrokenError):
            return  # it was dropped on purpose, or nobody is there to go on
        fatal = isinstance(error, KafkaError) and error.disposition is Disposition.FATAL
        if fatal or isinstance(error, UnsupportedVersionError):
            self.fail(error)
        else:
            self._doom(error)

    def record_refused(self, error: ProducerError) -> None:
        """``send()`` raised ``error`` instead of taking a record.

        A caller that meets :data:`MISUSE` may send another record instead. Any other
        refusal (no memory, too large) leaves a gap, so the transaction can't be committed. Source:
        ``KafkaProducer.doSend`` and ``TransactionManager.maybeTransitionToErrorState``.
        """
        if not isinstance(error, MISUSE):
            self.batch_failed(error)

    def numbers_lost(self) -> None:
        """A numbered batch was given up, so the numbers behind it fit no more."""
        self._epoch_spent = True

    @property
    def ends_the_epoch(self) -> bool:
        """True if nothing can be written late, for the end of the transaction ends its epoch."""
        return self.handle.version > 1

    @property
    def drops(self) -> bool:
        """True if records that have not left are not sent any more."""
        return self.state in (_S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR)

    @property
    def dropping(self) -> ProducerError | None:
        """The error of records that are not sent any more; None: they are sent."""
        if not self.drops:
            return None
        if self.state is _S.FATAL_ERROR:
            return self.refusal("send")
        why = f": {self.error}" if self.error is not None else ""
        error = TransactionAbortedError(f"dropped, for its transaction is aborted{why}")
        error.__cause__ = self.error
        return error

    # --- what to ask next ------------------------------------------------------------------

    def next_question(self, *, settled: bool) -> Question | None:
        """The question to ask now, if any. ``settled``: every record has its outcome.

        The caller asks again when it is answered, or when something has changed, not in between.
        """
        if settled and self._ends_unasked:
            self._complete()
        for question in self._wishes(settled):
            coordinator = coordinator_for(question, self.handle)
            if coordinator in self._coordinators:
                return question
            assert coordinator is not None
            return FindCoordinator(coordinator)
        return None

    def _wishes(self, settled: bool) -> Iterator[Question]:
        """The questions that are due, by priority."""
        if self.state is _S.INITIALIZING:
            yield InitProducerId(keep=self.handle.producer_id >= 0)
        if self.state in (_S.IN_TRANSACTION, _S.COMMITTING):
            if self._outside:
                yield AddPartitions(frozenset(self._outside))
            for pending in self._offsets:
                group = pending.question.group.group_id
                added = self.handle.version > 1 or group in self._groups
                yield pending.question if added else AddOffsets(group)
        if self.state is _S.COMMITTING and settled and not self._offsets:
            yield EndTransaction(committed=True)
        if self.state is _S.ABORTING and settled:
            yield EndTransaction(committed=False)

    @property
    def _ends_unasked(self) -> bool:
        ends = self.state is _S.ABORTING or (self.state is _S.COMMITTING and not self._offsets)
        return ends and not (self._started or self.handed_out)

    def coordinator(self, question: Question) -> Node | None:
        """The broker to ask; None: any."""
        coordinator = coordinator_for(question, self.handle)
        return None if coordinator is None else self._coordinators[coordinator]

    def asked(self, question: Question) -> None:
        """``question`` is on its way."""
        if isinstance(question, AddPartitions | AddOffsets | CommitOffsets):
            self._started = True

    def unanswered(self, question: Question) -> None:
        """``question`` was sent, and nobody knows whether it was read, or will be.

        With version 1 a question that is read late would change or end the next transaction of its
        epoch.
        """
        if not self.ends_the_epoch and not isinstance(question, FindCoordinator | InitProducerId):
            self._epoch_spent = True
        if isinstance(question, EndTransaction) and self.ending is not None:
            self.ending.may_be_done = True
        self.unreachable(question)

    def unreachable(self, question: Question) -> None:
        """The coordinator can't be reached, or is none any more: maybe there is another one."""
        coordinator = coordinator_for(question, self.handle)
        if coordinator is not None:
            self._coordinators.pop(coordinator, None)

    # --- what the answer means -------------------------------------------------------------

    def answered(self, question: Question, answer: Answer, where: str) -> Verdict:
        """Take the answer of the broker ``where``. Returns the verdict on the question."""
        error = error_in(question, answer, f"{self}: ", where)
        verdict = judge(question, error)
        self.obstacle = self.answer_before = error
        match verdict:
            case Verdict.DONE:
                self._done(question, answer)
            case Verdict.ELSEWHERE:
                self.unreachable(question)
            case Verdict.ABORTABLE if isinstance(question, EndTransaction):
                assert error is not None
                self._not_ended(question, error)
            case Verdict.ABORTABLE:
                assert error is not None
                self._doom(error)
            case Verdict.FENCED:
                assert error is not None
                self.fail(ProducerFencedError(str(error)))
            case Verdict.FATAL:
                assert error is not None
                self.fail(error)
        return verdict

    def _done(self, question: Question, answer: Answer) -> None:
        match question:
            case FindCoordinator(coordinator):
                assert answer.node is not None
                self._coordinators[coordinator] = answer.node
            case InitProducerId():
                self._begin_epoch(answer)
                self.handle = replace(self.handle, version=self.offered_version)
                self._go(_S.READY)
            case AddPartitions(partitions):
                self._partitions |= partitions
                self._outside -= partitions
            case AddOffsets(group):
                self._groups.add(group)
            case CommitOffsets():
                for pending in [each for each in self._offsets if each.question is question]:
                    pending.written = True
                    self._offsets.remove(pending)
            case EndTransaction():
                if answer.producer_id >= 0:
                    self._begin_epoch(answer)
                self._complete()

    def _begin_epoch(self, answer: Answer) -> None:
        self.handle = replace(self.handle, producer_id=answer.producer_id, epoch=answer.epoch)
        self._identity.begin_epoch(answer.producer_id, answer.epoch)
        self._epoch_spent = False

    def _complete(self) -> None:
        """The transaction has ended: go to the state that the next one needs."""
        assert self.ending is not None
        self.ending.done = self.ending.error is None
        self.error = None
        self._partitions.clear()
        self._outside.clear()
        self._groups.clear()
        self._offsets.clear()
        # Others have numbered batches in this epoch, if it was a shared one.
        if self.handed_out and self.handle.version == 1:
            self._epoch_spent = True
        self._started = self.shared = self.handed_out = False
        # Partitions taken in under version 1 must not count as such under version 2 (KIP-890).
        raised = self.offered_version > self.handle.version
        if (self._epoch_spent or raised) and not self.joined:
            self._go(_S.INITIALIZING)
        else:
            self.handle = replace(self.handle, version=self.offered_version)
            self._go(_S.READY)

    def _not_ended(self, question: EndTransaction, error: KafkaError) -> None:
        """The coordinator has no such transaction open: it can't be committed.

        An abort is done with that, or a new epoch will make it so; but a transaction that others
        take part in may have been committed by them.
        """
        if question.committed:
            self._doom(error)
            return
        if self.handed_out and isinstance(error, InvalidTxnStateError):
            assert self.ending is not None
            self.ending.error = IllegalStateError(
                f"{self}: can't abort, the transaction is not open any more: another producer that "
                "takes part may have committed it (or nobody has written anything)"
            )
            self.ending.error.__cause__ = error
        self._epoch_spent = True
        self._complete()

    def _doom(self, error: ProducerError) -> None:
        self._epoch_spent = True
        if self.state in (_S.IN_TRANSACTION, _S.COMMITTING):
            self.error = error
            if self.state is _S.COMMITTING:
                self._close_ending(error)
            self._go(_S.ABORTABLE_ERROR)
        elif self.state is _S.INITIALIZING:
            self.fail(error)  # there is nothing to abort, and asking again would get the same

    def refused(self, question: Question, error: ProducerError) -> None:
        """``question`` can't be asked."""
        self.fail(error)

    def fail(self, error: ProducerError) -> None:
        """The producer can't go on."""
        if self.state is not _S.FATAL_ERROR:
            self.error = error
            self._go(_S.FATAL_ERROR)
            self._close_ending(error)

    def _close_ending(self, error: ProducerError) -> None:
        if self.ending is not None and self.ending.open:
            self.ending.error = error

    # --- states ----------------------------------------------------------------------------

    def _require(self, doing: str, state: TransactionState) -> None:
        if self.state is not state:
            raise self.refusal(doing)

    def _go(self, state: TransactionState) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} -> {state}"
        logger.debug("%s: %s -> %s", self, self.state.name, state.name)
        self.state = state
        self.moves += 1
