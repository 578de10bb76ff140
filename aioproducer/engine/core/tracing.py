"""The decision, for each record of a traced producer, whether it is traced; and the traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aioproducer.engine.core.sending import PythonFastPath, RecordFields
from aioproducer.engine.observer import (
    CallTrace,
    Observer,
    RecordTrace,
    Untraced,
    observer_failed,
    undelivered,
)
from aioproducer.foundation.logs import ClientLog
from aioproducer.model import Header, RecordMetadata
from aioproducer.serialization.serializer import SharedHeaders, shared_headers


class Tracing:
    """Asks the observer about records and calls, and keeps its errors from the senders.

    ``log``: of the lines about those errors.
    """

    def __init__(
        self, observer: Observer, fast_path: PythonFastPath, log: ClientLog | None = None
    ) -> None:
        self._log = log
        self._observer = observer
        self._fast_path = fast_path

    def begin(self, fields: RecordFields) -> tuple[RecordFields, RecordTrace | None]:
        """A record's fields with the headers of its context, and its trace if it is traced.

        A decision about many records only applies to records without headers of their own, because
        headers may carry a context.
        """
        try:
            return self._begin(fields)
        except Exception as error:
            text = "%r failed for a record of topic %r"
            observer_failed(error, text, self._observer, fields[0], log=self._log)
            return fields, None

    def _begin(self, fields: RecordFields) -> tuple[RecordFields, RecordTrace | None]:
        topic, _, key, partition, headers, _ = fields
        if headers is None:
            context = self._observer.context()
            skipped = self._fast_path.take_skipped(context)
            if skipped is not None:
                return with_headers(fields, skipped), None
        decision = self._observer.record_sent(topic, key, partition, headers)
        if not isinstance(decision, Untraced):
            if headers is None and decision.behind is not None:
                self._fast_path.skip(context, decision.behind.records, decision.behind.headers)
            return with_headers(fields, decision.headers), decision
        if headers is None:
            self._fast_path.skip(context, decision.records - 1, decision.headers)
        return with_headers(fields, decision.headers), None

    def begin_call(self, topic: Any, headers: Any) -> CallTrace | None:
        """The trace of a ``send_many()``; None: it is not traced."""
        try:
            return self._observer.call_started(topic, headers)
        except Exception as error:
            text = "%r failed for a send_many() to topic %r"
            observer_failed(error, text, self._observer, topic, log=self._log)
            return None


def with_headers(fields: RecordFields, headers: Sequence[Header]) -> RecordFields:
    """``fields`` with more headers after the record's own."""
    topic, value, key, partition, own, timestamp_ms = fields
    return topic, value, key, partition, joined_headers(own, headers), timestamp_ms


def joined_headers(own: Any, more: Sequence[Header]) -> Any:
    """The record's ``own`` headers, and ``more`` of them; ``own`` may be invalid, and stays so."""
    if not more:
        return own
    pairs = own.items() if isinstance(own, Mapping) else own or ()
    try:
        return (*pairs, *more)
    except TypeError:
        return own


def in_context(fields: RecordFields, shared: SharedHeaders | None) -> RecordFields:
    """A whole record of a ``send_many()``, with the headers that the call's trace has for it."""
    if shared is None or shared.context_for is None:
        return fields
    try:
        return with_headers(fields, shared.context_for(fields[4]))
    except Exception as error:
        text = "%r failed for a record of topic %r"
        observer_failed(error, text, shared.context_for, fields[0])
        return fields


class CallReport(Protocol):
    """The part of a :class:`SendReport` that a trace gets."""

    @property
    def failed(self) -> int: ...

    @property
    def pending(self) -> int: ...

    @property
    def sent(self) -> int: ...

    @property
    def first_failure(self) -> BaseException | None: ...


class TracedCall:
    """A ``send_many()`` of a producer that may be traced.

    ``headers``: of all its records; :attr:`headers` has those of its context, too.
    """

    def __init__(self, tracing: Tracing | None, topic: str, headers: SharedHeaders | None) -> None:
        self._trace = None if tracing is None else tracing.begin_call(topic, headers)
        self.headers = headers
        if self._trace is not None and self._trace.headers:
            self.headers = shared_headers(joined_headers(headers, self._trace.headers), topic)
            if self.headers is not None:
                self.headers.context_for = self._trace.headers_for

    def ended(self, report: CallReport | None, error: BaseException | None) -> None:
        """Take the outcome; ``error``: the one that the call raises."""
        if self._trace is not None:
            try:
                if report is None:
                    self._trace.ended(0, 0, error)
                else:
                    undelivered = report.failed + report.pending
                    self._trace.ended(report.sent, undelivered, error or report.first_failure)
            except Exception as failure:
                observer_failed(failure, "%r failed", self._trace)


def end_refused(trace: RecordTrace, fields: RecordFields, error: BaseException) -> None:
    """Give ``trace`` the error of a record that is not in the log, or may not be."""
    end(trace, undelivered(fields[0], fields[3]), error)


def end(trace: RecordTrace, metadata: RecordMetadata, error: BaseException | None) -> None:
    """Give ``trace`` the record's outcome."""
    try:
        trace.ended(metadata, error)
    except Exception as failure:
        observer_failed(failure, "%r failed for a record of topic %r", trace, metadata.topic)
