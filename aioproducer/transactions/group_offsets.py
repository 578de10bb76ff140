"""Committed offsets of consumer groups, for callers that ask. No I/O, no clock.

It stands beside the transaction: a fetch that takes long, or is refused, does not concern the
:class:`TransactionManager`, and neither waits for the other. Offsets that an open transaction would
change are waited for, so the transaction may have to end before they are known.

Source: the ``OffsetFetchResponseHandler`` of Kafka's consumer (KIP-447).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aioproducer.errors import ProducerError
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition
from aioproducer.transactions.questions import (
    Answer,
    Coordinator,
    CoordinatorType,
    FetchOffsets,
    FindCoordinator,
    Question,
)
from aioproducer.transactions.verdicts import Verdict, error_in, judge


@dataclass(slots=True, eq=False)
class PendingFetch:
    """Offsets that a caller waits for."""

    question: FetchOffsets
    offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None
    """None: they are not known yet."""
    error: ProducerError | None = None
    """The reason that they will not be known."""


class GroupOffsets:
    """The offsets that are asked for. ``who``: the asker's name in messages."""

    def __init__(self, who: str) -> None:
        self.obstacle: ProducerError | None = None
        """The last known reason that there is no answer yet."""
        self._who = who
        self._pending: list[PendingFetch] = []
        self._coordinators: dict[str, Node] = {}

    def fetch(self, group_id: str, partitions: frozenset[TopicPartition]) -> PendingFetch:
        """Ask for a group's offsets until they are known, or :meth:`give_up`."""
        pending = PendingFetch(FetchOffsets(group_id, partitions))
        self._pending.append(pending)
        return pending

    def give_up(self, pending: PendingFetch) -> None:
        """Nobody waits for ``pending`` any more; a fetch that is over stays as it is."""
        if pending in self._pending:
            self._pending.remove(pending)

    def __str__(self) -> str:
        return self._who

    # --- what to ask next ------------------------------------------------------------------

    def next_question(self) -> Question | None:
        """The question to ask now, if any."""
        if not self._pending:
            return None
        question = self._pending[0].question
        if question.group_id in self._coordinators:
            return question
        return FindCoordinator(Coordinator(CoordinatorType.GROUP, question.group_id))

    def coordinator(self, question: Question) -> Node | None:
        """The broker to ask; None: any."""
        if isinstance(question, FetchOffsets):
            return self._coordinators.get(question.group_id)
        return None

    def asked(self, question: Question) -> None:
        """``question`` is on its way: the next one is another caller's, as some take long."""
        those = self._behind(question)
        self._pending.sort(key=lambda each: each in those)

    def unanswered(self, question: Question) -> None:
        """``question`` was sent, and nobody knows whether it was read: ask again."""
        self.unreachable(question)

    def unreachable(self, question: Question) -> None:
        """The coordinator can't be reached, or is none any more: maybe there is another one."""
        if isinstance(question, FetchOffsets):
            self._coordinators.pop(question.group_id, None)

    # --- what the answer means -------------------------------------------------------------

    def answered(self, question: Question, answer: Answer, where: str) -> Verdict:
        """Take the answer of the broker ``where``. Returns the verdict on the question."""
        error = error_in(question, answer, f"{self}: ", where)
        verdict = judge(question, error)
        self.obstacle = error
        if error is None:
            self._done(question, answer)
        elif verdict is Verdict.ELSEWHERE:
            self.unreachable(question)
        elif verdict not in (Verdict.AGAIN, Verdict.SOON):
            self.refused(question, error)
        return verdict

    def _done(self, question: Question, answer: Answer) -> None:
        match question:
            case FindCoordinator(coordinator):
                assert answer.node is not None
                self._coordinators[coordinator.key] = answer.node
            case FetchOffsets():
                for pending in self._behind(question):
                    pending.offsets = answer.offsets
                    self.give_up(pending)

    def refused(self, question: Question, error: ProducerError) -> None:
        """``question`` will get no answer but ``error``."""
        for pending in self._behind(question):
            pending.error = error
            self.give_up(pending)

    def _behind(self, question: Question) -> list[PendingFetch]:
        """The fetches for whose sake ``question`` was asked."""
        if isinstance(question, FindCoordinator):
            group_id = question.coordinator.key
            return [each for each in self._pending if each.question.group_id == group_id]
        return [each for each in self._pending if each.question is question]
