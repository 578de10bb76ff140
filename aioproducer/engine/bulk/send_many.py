"""The asynchronous ``send_many()``: values one by one, or Arrow columns."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from aioproducer.engine.bulk.send_report import SendReport
from aioproducer.engine.bulk.value_sender import ValueSender
from aioproducer.engine.core.arguments import one_by_one
from aioproducer.engine.core.producer_core import ProducerCore
from aioproducer.engine.core.tracing import TracedCall
from aioproducer.engine.records.arrow import is_arrow, read_columns
from aioproducer.model import Headers
from aioproducer.serialization import shared_headers


async def send_many(
    core: ProducerCore, topic: str, values: Any, partition: int | None, headers: Headers | None
) -> SendReport:
    """Send every value and wait for all outcomes; see :meth:`aioproducer.Producer.send_many`."""
    core.check_usable()
    columns = read_columns(values) if is_arrow(values) else None
    if columns is None and not isinstance(values, AsyncIterable):
        values = one_by_one(values, "an iterable or async iterable")
    shared = None if headers is None else shared_headers(headers, topic)
    sender = ValueSender(core)
    with core.hold_commit():
        call = TracedCall(core.tracing, topic, shared)
        if columns is None or all(each.headers is None for each in columns):
            shared = call.headers
        report: SendReport | None = None
        raised: BaseException | None = None
        try:
            if columns is None:
                report = await sender.send_all(topic, values, partition, shared)
            else:
                report = await sender.send_columns(topic, columns, partition, shared)
            return report
        except BaseException as error:
            report, raised = SendReport.of(error), error
            raise
        finally:
            call.ended(report, raised)
            if report is not None and report.first_failure is not None:
                core.record_failed(report.first_failure)
