"""Carries the questions of a transactional producer to its coordinators, and the answers back."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.errors import NetworkError, ProducerError, RequestTimeoutError
from aioproducer.model import Node, Peer, TransactionHandle
from aioproducer.network.client import NetworkClient
from aioproducer.network.request import Completion
from aioproducer.sender.completer import BatchCompleter
from aioproducer.sender.transaction_codec import TransactionRequest
from aioproducer.transactions.group_offsets import GroupOffsets
from aioproducer.transactions.manager import TransactionManager
from aioproducer.transactions.questions import AddPartitions, Answer, Question
from aioproducer.transactions.states import TransactionState
from aioproducer.transactions.verdicts import Verdict

logger = logging.getLogger(__name__)


class Asker(Protocol):
    """A state machine that has questions for coordinators, and understands the answers."""

    obstacle: ProducerError | None

    def coordinator(self, question: Question) -> Node | None:
        """The broker to ask; None: any."""

    def asked(self, question: Question) -> None:
        """``question`` is on its way."""

    def unanswered(self, question: Question) -> None:
        """``question`` was sent, and nobody knows whether it was read."""

    def unreachable(self, question: Question) -> None:
        """The coordinator of ``question`` can't be reached."""

    def refused(self, question: Question, error: ProducerError) -> None:
        """``question`` can't be asked, because of ``error``."""

    def answered(self, question: Question, answer: Answer, where: str) -> Verdict:
        """Take the answer of the broker ``where``. Returns the verdict on ``question``."""


class Lane:
    """The questions of one asker: one at a time, and a pause after each that has to come again."""

    def __init__(
        self,
        asker: Asker,
        client: NetworkClient,
        metadata: Metadata,
        backoff: ExponentialBackoff,
        timeout_ms: int,
    ) -> None:
        self.request: TransactionRequest | None = None
        """The request on its way."""
        self._asker = asker
        self._client = client
        self._metadata = metadata
        self._backoff = backoff
        self._timeout_ms = timeout_ms
        self._attempts = 0
        self._not_before = 0.0
        self._failure: ProducerError | None = None

    def ask(self, question: Question, handle: TransactionHandle, now: float) -> float | None:
        """Ask if that is possible now. Returns when to look again."""
        if self._not_before > now:
            return self._not_before
        node: Peer | None = self._asker.coordinator(question)
        if node is None:
            peers = self._metadata.peers
            node = self._client.least_loaded(peers, now)
            if node is None:
                return self._client.next_chance(peers, now)
        if not self._client.ready(node, now):
            if self._doubt(question, node):
                self._not_before = now + self._backoff.delay(1)
                return self._not_before
            return self._client.not_before(node.id, now)
        self.request = TransactionRequest(question, handle, self._timeout_ms)
        self._asker.asked(question)
        self._client.send(node.id, self.request)
        return None

    def _doubt(self, question: Question, node: Peer) -> bool:
        """Look for the coordinator anew if it can't be reached. True if that failure is new."""
        failure = self._client.failures().get(node.id)
        if failure is None or failure is self._failure:
            return False
        self._failure = self._asker.obstacle = failure
        self._asker.unreachable(question)
        self._metadata.request_update()  # its address may be out of date
        return True

    def completed(self, completion: Completion, now: float) -> Verdict:
        """Take the answer to the request, or the reason that there is none."""
        assert self.request is not None
        question, self.request = self.request.question, None
        error = completion.error
        if error is None:
            answer: Answer = completion.result
            where = self._metadata.describe(completion.node)
            verdict = self._asker.answered(question, answer, where)
            if verdict is not Verdict.DONE:
                logger.debug("%s: %s: %s", self._asker, question, answer)
        elif isinstance(error, NetworkError | RequestTimeoutError):
            self._asker.obstacle = error
            self._asker.unanswered(question)
            self._metadata.request_update()
            verdict = Verdict.ELSEWHERE
        else:
            self._asker.refused(question, error)
            verdict = Verdict.FATAL
        if verdict is Verdict.DONE:
            self._attempts = 0
        else:
            self._attempts += 1
            wait = self._backoff.soon if verdict is Verdict.SOON else self._backoff.delay
            self._not_before = now + wait(self._attempts)
        return verdict


class TransactionDriver:
    """Asks for a producer's transactions, and beside them for the offsets of groups.

    ``on_change`` is called when state or offsets may have changed.
    """

    def __init__(
        self,
        manager: TransactionManager,
        offsets: GroupOffsets,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        completer: BatchCompleter,
        backoff: ExponentialBackoff,
        timeout_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._offsets = offsets
        self._accumulator = accumulator
        self._client = client
        self._completer = completer
        self._on_change = on_change
        self._lane = Lane(manager, client, metadata, backoff, timeout_ms)
        self._offsets_lane = Lane(offsets, client, metadata, backoff, timeout_ms)
        self._moves = manager.moves

    @property
    def idle(self) -> bool:
        """True if no transaction is being ended."""
        ending = (TransactionState.COMMITTING, TransactionState.ABORTING)
        return self._manager.state not in ending

    def step(self, now: float) -> float | None:
        """Ask the next questions, drop records not to be sent. Returns when to look again."""
        manager = self._manager
        manager.offered_version = self._client.features.transaction_version
        if self._accumulator.closing and not manager.joined:
            manager.abort_if_failed()  # nobody else will
        dropped_for = manager.dropping
        if dropped_for is not None:
            self._completer.abort(dropped_for, now, unsent_only=True)
        self._tell()
        moments = (self._ask(now), self._ask_for_offsets(now))
        return min((moment for moment in moments if moment is not None), default=None)

    def _ask(self, now: float) -> float | None:
        if self._lane.request is not None:
            return None
        settled = not self._accumulator.incomplete and not self._accumulator.line
        question = self._manager.next_question(settled=settled)
        self._tell()
        return None if question is None else self._lane.ask(question, self._manager.handle, now)

    def _ask_for_offsets(self, now: float) -> float | None:
        question = self._offsets.next_question()
        if self._offsets_lane.request is not None or question is None:
            return None
        return self._offsets_lane.ask(question, self._manager.handle, now)

    def _tell(self) -> None:
        if self._manager.moves != self._moves:
            self._moves = self._manager.moves
            self._on_change()

    def completed(self, completion: Completion, now: float) -> None:
        """Take the answer to a request, or the reason that there is none."""
        if completion.request is self._offsets_lane.request:
            self._offsets_lane.completed(completion, now)
            self._on_change()
            return
        question = completion.request.question
        producer_id = self._manager.handle.producer_id
        if self._lane.completed(completion, now) is Verdict.DONE:
            if isinstance(question, AddPartitions):
                self._accumulator.dispatch.release(question.partitions, now)
            if self._manager.handle.producer_id != producer_id:
                self._accumulator.dispatch.forget_acknowledged()
            self._moves = self._manager.moves
            self._on_change()
        else:
            self._tell()
