"""Carries the questions of a transactional producer to its coordinators, and the answers back."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aioproducer.accumulator.record_accumulator import RecordAccumulator
from aioproducer.cluster.backoff import ExponentialBackoff
from aioproducer.cluster.metadata import Metadata
from aioproducer.errors import NetworkError, ProducerError, RequestTimeoutError
from aioproducer.model import Node
from aioproducer.network.client import Completion, NetworkClient
from aioproducer.sender.completer import BatchCompleter
from aioproducer.sender.transaction_requests import TransactionRequest, read_answer
from aioproducer.transactions.manager import TransactionManager
from aioproducer.transactions.questions import (
    AddPartitions,
    FetchOffsets,
    FindCoordinator,
    Question,
)
from aioproducer.transactions.states import TransactionState
from aioproducer.transactions.verdicts import Verdict

logger = logging.getLogger(__name__)


class TransactionRequester:
    """One request at a time. ``on_change`` is called when state or offsets may have changed."""

    def __init__(
        self,
        manager: TransactionManager,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        metadata: Metadata,
        completer: BatchCompleter,
        backoff: ExponentialBackoff,
        timeout_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._accumulator = accumulator
        self._client = client
        self._metadata = metadata
        self._completer = completer
        self._backoff = backoff
        self._timeout_ms = timeout_ms
        self._on_change = on_change
        self._asked: Question | None = None
        self._attempts = 0
        self._not_before = 0.0
        self._moves = manager.moves
        self._failure: ProducerError | None = None
        self.obstacle: ProducerError | None = None
        """Why there is no answer yet, as far as is known."""

    @property
    def idle(self) -> bool:
        """Whether no transaction is being ended."""
        ending = (TransactionState.COMMITTING, TransactionState.ABORTING)
        return self._manager.state not in ending

    def step(self, now: float) -> float | None:
        """Ask what is to be asked, drop what is not to be sent; when to look again."""
        manager = self._manager
        manager.offered_version = self._client.features.transaction_version
        if self._accumulator.closing and not manager.joined:
            manager.abort_if_failed()  # nobody else will
        dropped_for = manager.dropping
        if dropped_for is not None:
            self._completer.abort(dropped_for, now, unsent_only=True)
        self._tell()
        if self._asked is not None:
            return None
        settled = not self._accumulator.incomplete and not self._accumulator.line
        question = manager.next_question(settled=settled)
        self._tell()
        if question is None:
            return None
        if self._not_before > now:
            return self._not_before
        return self._ask(question, now)

    def _tell(self) -> None:
        if self._manager.moves != self._moves:
            self._moves = self._manager.moves
            self._on_change()

    def _ask(self, question: Question, now: float) -> float | None:
        node = self._manager.coordinator(question)
        if node is None:
            brokers = self._metadata.snapshot.brokers.values()
            node = self._client.least_loaded(brokers, now)
            if node is None:
                return self._client.next_chance(brokers, now)
        if not self._client.ready(node, now):
            if self._doubt(question, node):
                self._not_before = now + self._backoff.delay(1)
                return self._not_before
            return self._client.not_before(node.id, now)
        request = TransactionRequest(question, self._manager.handle, self._timeout_ms)
        self._asked = question
        self._manager.asked(question)
        self._client.send(node.id, request)
        return None

    def _doubt(self, question: Question, node: Node) -> bool:
        """A coordinator that can't be reached may not be it any more; whether that is new."""
        failure = self._client.failures().get(node.id)
        if failure is None or failure is self._failure:
            return False
        self._failure = self.obstacle = failure
        self._manager.unreachable(question)
        self._metadata.request_update()  # its address may be out of date
        return True

    def completed(self, completion: Completion, now: float) -> None:
        """The answer to a request, or why there is none."""
        question, self._asked = completion.request.question, None
        error = completion.error
        producer_id = self._manager.handle.producer_id
        if error is None:
            node = self._metadata.snapshot.brokers.get(completion.node, f"broker {completion.node}")
            answer = read_answer(question, completion.response)
            verdict = self._manager.answered(question, answer, str(node))
            if verdict is not Verdict.DONE:
                self.obstacle = self._manager.answer_before
                logger.debug("%s: %s: %s", self._manager, question, answer)
        elif isinstance(error, NetworkError | RequestTimeoutError):
            self.obstacle = error
            self._manager.unanswered(question)
            self._metadata.request_update()
            verdict = Verdict.ELSEWHERE
        else:
            self._manager.refused(question, error)
            verdict = Verdict.FATAL
        if verdict is Verdict.DONE:
            self._attempts = 0
            self.obstacle = None
            if isinstance(question, AddPartitions):
                self._accumulator.departures.release(question.partitions, now)
            if self._manager.handle.producer_id != producer_id:
                self._accumulator.departures.forget_acknowledged()
            self._moves = self._manager.moves
            self._on_change()
        else:
            self._attempts += 1
            soon = verdict is Verdict.SOON
            wait = self._backoff.soon if soon else self._backoff.delay
            self._not_before = now + wait(self._attempts)
            if isinstance(question, FetchOffsets | FindCoordinator):
                self._on_change()  # it may be over without a change of state
            self._tell()
