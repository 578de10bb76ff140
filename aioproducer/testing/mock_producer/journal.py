"""The records without an outcome, in the order of their ``send()`` calls, and their answers."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from aioproducer.engine.interceptors import Interceptors
from aioproducer.engine.observer import ObservedFuture
from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import ClientLog
from aioproducer.model import Header, ProducerRecord, RecordMetadata

Answer: TypeAlias = Callable[[ProducerError | None], object]
"""Answers the request of a record: None delivers it, an error fails it for good."""


@dataclass(eq=False, slots=True)
class OpenRecord:
    """A record without an outcome."""

    number: int
    """The place among all records, in the order of ``send()``."""
    original: ProducerRecord[Any, Any]
    decided: bool = False
    error: ProducerError | None = None
    """The decision, once it was made: None delivers the record."""
    armed: bool = False
    """True if ``error`` was decided before the record was sent."""
    answer: Answer | None = None
    """Set once the record is at the cluster."""


class Journal:
    """Follows each record from ``send()`` to its outcome, and takes the decisions of a test.

    ``auto_complete``: a record that no decision is about is delivered as it reaches the cluster.
    """

    def __init__(self, *, auto_complete: bool) -> None:
        self._auto_complete = auto_complete
        self._open: OrderedDict[ObservedFuture, OpenRecord] = OrderedDict()
        self._undecided: OrderedDict[ObservedFuture, OpenRecord] = OrderedDict()
        self._armed: deque[ProducerError] = deque()
        """The errors of the records that will be sent next."""
        self._sent = 0

    @property
    def pending(self) -> list[ProducerRecord[Any, Any]]:
        """The records without an outcome, as they were passed to ``send()``."""
        return [each.original for each in self._open.values()]

    def forget_errors(self) -> None:
        """Drop the errors that no record has met yet."""
        self._armed.clear()

    # --- the life of a record --------------------------------------------------------------

    def sent(self, token: ObservedFuture, original: ProducerRecord[Any, Any]) -> None:
        """A record is being sent; the call may still refuse it."""
        record = self._open[token] = OpenRecord(self._sent, original)
        self._sent += 1
        if self._armed:
            record.decided = record.armed = True
            record.error = self._armed.popleft()
        else:
            self._undecided[token] = record

    def arrived(self, token: ObservedFuture, answer: Answer, *, at_once: bool) -> None:
        """A record is at the cluster. ``at_once``: its answer is not a matter of decision."""
        record = self._open[token]
        if record.decided or self._auto_complete or at_once:
            self._undecided.pop(token, None)
            record.decided = True
            record.armed = False
            answer(None if at_once else record.error)
        else:
            record.answer = answer

    def number_of(self, token: ObservedFuture) -> tuple[int, ProducerRecord[Any, Any]]:
        """The place of a record among all, and the record as it was passed to ``send()``."""
        record = self._open[token]
        return record.number, record.original

    def ended(self, token: ObservedFuture) -> None:
        """The record has its outcome, or the call has refused it."""
        record = self._open.pop(token, None)
        self._undecided.pop(token, None)
        if record is not None and record.armed and record.error is not None:  # it was never sent
            self._armed.appendleft(record.error)

    # --- decisions -------------------------------------------------------------------------

    def decide(self, error: ProducerError | None) -> bool:
        """Decide about the oldest record without a decision; False: there is none."""
        if not self._undecided:
            return False
        _, record = self._undecided.popitem(last=False)
        record.decided, record.error = True, error
        if record.answer is not None:
            record.answer(error)
        return True

    def arm(self, error: ProducerError) -> bool:
        """Fail the oldest record without a decision, or else the next one that is sent."""
        if not self.decide(error):
            if not self._auto_complete:
                return False
            self._armed.append(error)
        return True


class JournaledInterceptors(Interceptors):
    """A producer's own interceptors, after which ``journal`` sees each record."""

    def __init__(self, journal: Journal, chain: Sequence[Any], log: ClientLog | None) -> None:
        super().__init__(chain, log)
        self._journal = journal

    def __bool__(self) -> bool:
        """True, so that no record takes the fast path."""
        return True

    def follow(
        self, future: Any, record: ProducerRecord, headers: Sequence[Header] = ()
    ) -> ObservedFuture:
        """The future of ``record``; its outcome goes to the journal, then to the interceptors."""

        def told(metadata: RecordMetadata, error: BaseException | None) -> None:
            self._journal.ended(token)
            self.on_acknowledgement(metadata, error, headers)

        token = ObservedFuture(future, record.topic, record.partition, told)
        self._journal.sent(token, record)
        return token
