"""The end of a trace of a record of the blocking shell."""

from __future__ import annotations

from concurrent.futures import Future

from aioproducer.engine.accumulator import cancelled_by_caller
from aioproducer.engine.core.send_pipeline import RecordFields
from aioproducer.engine.core.tracing import end, end_refused
from aioproducer.engine.observer import RecordTrace
from aioproducer.model import RecordMetadata


def end_by_future(trace: RecordTrace, fields: RecordFields, future: Future[RecordMetadata]) -> None:
    """Give ``trace`` the outcome of a record of the blocking shell, whose future is done."""
    if future.cancelled():
        end_refused(trace, fields, cancelled_by_caller(fields[0]))
    elif (error := future.exception()) is not None:
        end_refused(trace, fields, error)
    else:
        end(trace, future.result(), None)
