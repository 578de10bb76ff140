# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``delivery``."""

from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM

from aioproducer.engine.records._speedups.cpython_internals cimport new_tuple, track, untrack

from asyncio import Future

from aioproducer.model import RecordMetadata
from aioproducer.engine.records.bulk_tokens import BulkToken

cdef type BULK_TOKEN = BulkToken
cdef type METADATA = RecordMetadata
cdef type FUTURE = Future


def fail_record(token, error):
    """See ``delivery.fail_record``."""
    if not token.done():
        if type(token) is FUTURE:
            track(token)
        token.set_exception(error)
        token.exception()


def deliver_records(
    list tokens not None,
    list runs not None,
    topic,
    partition,
    base_offset,
    log_append_time_ms,
    log_start_offset=-1,
):
    """See ``delivery.deliver_records``."""
    cdef bint known = base_offset >= 0
    cdef Py_ssize_t index, first, end, number
    cdef Py_ssize_t last = len(runs) - 1
    cdef list together = []
    cdef list results = []
    cdef bint is_together = False
    kind = delivered = None
    for number in range(last + 1):
        first, timestamp_ms, key_size, value_size = runs[number]
        end = runs[number + 1][0] if number < last else len(tokens)
        if log_append_time_ms >= 0:
            timestamp_ms = log_append_time_ms
        for index in range(first, end):
            token = tokens[index]
            if token is delivered:
                continue
            offset = base_offset + index if known else base_offset
            if type(token) is BULK_TOKEN:
                delivered = token
                if not token.done():
                    token.deliver(topic, partition, offset)
                continue
            if type(token) is not kind:
                kind = type(token)
                is_together = hasattr(kind, "set_results")
                if is_together and together and type(together[0]) is not kind:
                    deliver_together(together, results, log_append_time_ms, log_start_offset)
                    together, results = [], []
            if not is_together and token.done():
                continue
            metadata = new_tuple(METADATA, 6)
            put(metadata, 0, topic)
            put(metadata, 1, partition)
            put(metadata, 2, offset)
            put(metadata, 3, timestamp_ms)
            put(metadata, 4, key_size)
            put(metadata, 5, value_size)
            untrack(metadata)
            if is_together:
                together.append(token)
                results.append(metadata)
            else:
                token.set_result(metadata)
    if together:
        deliver_together(together, results, log_append_time_ms, log_start_offset)


cdef deliver_together(list tokens, list results, log_append_time_ms, log_start_offset):
    """See ``delivery._deliver_together``."""
    type(tokens[0]).set_results(tokens, results, log_append_time_ms >= 0, log_start_offset)


cdef inline void put(metadata, Py_ssize_t place, field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(metadata, place, field)
