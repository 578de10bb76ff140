"""The outcome of a batch for each of its records: its offset, or the error."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final

from aioproducer.engine.records.builder import Run
from aioproducer.engine.records.bulk_tokens import BulkToken
from aioproducer.model import RecordMetadata

_first_record: Final = itemgetter(0)
"""Of a run: the index of its first record."""


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
    log_start_offset: int = -1,
) -> None:
    """Set the result of each token that is not done; a :class:`BulkToken` is called once.

    Tokens of a class with ``set_results(tokens, results, is_log_append_time, log_start_offset)``
    get their results in one call for all that follow one another, those that are done as well.
    ``base_offset`` and ``log_start_offset`` -1: unknown, ``log_append_time_ms`` -1:
    unused.
    """
    new, cls = tuple.__new__, RecordMetadata
    step = 0 if base_offset < 0 else 1
    offset = base_offset
    delivered = None
    together: list[Any] = []
    results: list[RecordMetadata] = []
    ends = [*map(_first_record, runs[1:]), len(tokens)]
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
                    if together and type(token) is not type(together[0]):
                        _deliver_together(together, results, log_append_time_ms, log_start_offset)
                        together, results = [], []
                    together.append(token)
                    results.append(new(cls, fields))
                elif not token.done():
                    token.set_result(new(cls, fields))
            offset += step
    if together:
        _deliver_together(together, results, log_append_time_ms, log_start_offset)


def _deliver_together(
    tokens: list[Any], results: list[RecordMetadata], log_append_time_ms: int, log_start_offset: int
) -> None:
    type(tokens[0]).set_results(tokens, results, log_append_time_ms >= 0, log_start_offset)
