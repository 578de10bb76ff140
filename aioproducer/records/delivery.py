"""The outcome of a batch for each of its records: its offset, or the error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioproducer.model import RecordMetadata
from aioproducer.records.builder import Run
from aioproducer.records.bulk_tokens import BulkToken


def fail_record(token: Any, error: BaseException) -> None:
    """Fail the token if it is not done, and read its error, so that asyncio does not complain."""
    if not token.done():
        token.set_exception(error)
        token.exception()


def deliver_records(
    tokens: Sequence[Any],
    runs: Sequence[Run],
    topic: str,
    partition: int,
    base_offset: int,
    log_append_time_ms: int,
) -> None:
    """Set the result of each token that is not done; a :class:`BulkToken` is called once.

    Tokens of a class with ``set_results(tokens, results)`` get their results in one call at the
    end, those that are done as well. A batch has tokens of one such class.
    ``base_offset`` -1: unknown, ``log_append_time_ms`` -1: unused.
    """
    new, cls = tuple.__new__, RecordMetadata
    step = 0 if base_offset < 0 else 1
    offset = base_offset
    delivered = None
    together: list[Any] = []
    results: list[RecordMetadata] = []
    ends = [run[0] for run in runs[1:]] + [len(tokens)]
    for (first, timestamp_ms, key_size, value_size), end in zip(runs, ends, strict=False):
        if log_append_time_ms >= 0:
            timestamp_ms = log_append_time_ms
        for token in tokens[first:end]:
            if type(token) is BulkToken:
                if token is not delivered and not token.done():
                    token.deliver(topic, partition, offset)
                delivered = token
            else:
                fields = (topic, partition, offset, timestamp_ms, key_size, value_size)
                if hasattr(type(token), "set_results"):
                    together.append(token)
                    results.append(new(cls, fields))
                elif not token.done():
                    token.set_result(new(cls, fields))
            offset += step
    if together:
        type(together[0]).set_results(together, results)
