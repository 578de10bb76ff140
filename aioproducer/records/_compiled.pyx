# cython: language_level=3, binding=False, wraparound=False
"""The innermost loops for C: the same as in ``builder`` and ``delivery``, their reference.

Every record is written straight into the buffer, whose size is looked at each time: the caller may
have replaced it. Nothing between that look and the last byte runs code of Python.
"""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromObject, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

cdef extern from "Python.h":
    void PyObject_GC_UnTrack(PyObject*)

from aioproducer.model import RecordMetadata
from aioproducer.records.builder import BATCH_OVERHEAD, check_fields, header_bytes

cdef Py_ssize_t RECORDS_BEGIN = BATCH_OVERHEAD
cdef type METADATA = RecordMetadata
cdef PyTypeObject* TUPLE = <PyTypeObject*>tuple


cdef inline uint64_t zigzag(int64_t number) noexcept:
    return (<uint64_t>number << 1) ^ (~<uint64_t>0 if number < 0 else 0)


cdef inline Py_ssize_t varint_size(int64_t number) noexcept:
    cdef uint64_t rest = zigzag(number)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size


cdef inline char* write_varint(char* to, int64_t number) noexcept:
    cdef uint64_t rest = zigzag(number)
    while rest > 0x7F:
        to[0] = <char>(rest & 0x7F | 0x80)
        to += 1
        rest >>= 7
    to[0] = <char>rest
    return to + 1


cdef inline char* write_bytes(char* to, bytes data, Py_ssize_t size) noexcept:
    memcpy(to, PyBytes_AS_STRING(data), size)
    return to + size


cdef inline Py_ssize_t size_of(bytes field) noexcept:
    return -1 if field is None else PyBytes_GET_SIZE(field)


cdef inline char* write_field(char* to, bytes field, Py_ssize_t size) noexcept:
    to = write_varint(to, size)
    return to if field is None else write_bytes(to, field, size)


@cython.final
cdef class RecordsBuilder:
    """See ``builder.RecordsBuilder``."""

    cdef public bytearray buffer
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t position
    cdef readonly Py_ssize_t count
    cdef public list tokens
    cdef public list runs
    cdef readonly int64_t base_timestamp_ms
    cdef readonly Py_ssize_t max_record_size
    cdef int64_t last_timestamp_ms
    cdef Py_ssize_t last_key_size
    cdef Py_ssize_t last_value_size

    def __init__(self, bytearray buffer not None, Py_ssize_t limit):
        self.buffer = buffer
        self.limit = limit
        self.position = RECORDS_BEGIN
        self.count = 0
        self.tokens = []
        self.runs = []
        self.base_timestamp_ms = -1
        self.max_record_size = 0

    @property
    def records(self):
        return memoryview(self.buffer)[RECORDS_BEGIN:self.position]

    @property
    def max_timestamp_ms(self):
        return max([run[1] for run in self.runs])

    def close(self):
        self.limit = 0

    def append_value(self, token, now_ns, value):
        cdef int overflow = 1
        cdef int64_t nanoseconds = 0
        if type(now_ns) is int:
            nanoseconds = PyLong_AsLongLongAndOverflow(now_ns, &overflow)
        if overflow or nanoseconds < 0 or type(value) is not bytes:
            timestamp_ms = now_ns // 1_000_000
            if value is None:
                raise TypeError("a record that is nothing but a value has one: use append()")
            return self.append(token, timestamp_ms, None, value)
        return self.write(token, <uint64_t>nanoseconds // 1_000_000, None, value, None)

    def append(self, token, timestamp_ms, key, value, headers=()):
        if (
            type(timestamp_ms) is not int
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            check_fields(timestamp_ms, key, value)
        cdef int64_t timestamp = timestamp_ms
        if timestamp < 0:
            check_fields(timestamp_ms, key, value)
        return self.write(token, timestamp, key, value, headers)

    cdef Py_ssize_t write(self, token, int64_t timestamp, key, value, headers) except -1:
        cdef bytes key_bytes = None if key is None else PyBytes_FromObject(key)
        cdef bytes value_bytes = None if value is None else PyBytes_FromObject(value)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"

        cdef Py_ssize_t key_size = size_of(key_bytes)
        cdef Py_ssize_t value_size = size_of(value_bytes)
        cdef int64_t delta = timestamp - self.base_timestamp_ms if self.count else 0
        cdef Py_ssize_t body = (
            1
            + varint_size(delta)
            + varint_size(self.count)
            + varint_size(key_size)
            + max(key_size, 0)
            + varint_size(value_size)
            + max(value_size, 0)
            + len(tail)
        )
        cdef Py_ssize_t size = varint_size(body) + body
        cdef Py_ssize_t end = self.position + size
        if end > self.limit or end > len(self.buffer):
            return 0

        cdef char* to = PyByteArray_AS_STRING(self.buffer) + self.position
        to = write_varint(to, body)
        to[0] = 0
        to = write_varint(to + 1, delta)
        to = write_varint(to, self.count)
        to = write_field(to, key_bytes, key_size)
        to = write_field(to, value_bytes, value_size)
        write_bytes(to, tail, len(tail))
        return self.keep(token, timestamp, key_size, value_size, size)

    cdef Py_ssize_t keep(
        self,
        token,
        int64_t timestamp,
        Py_ssize_t key_size,
        Py_ssize_t value_size,
        Py_ssize_t size,
    ) except -1:
        """Count a record whose bytes are written."""
        cdef Py_ssize_t index = self.count
        self.tokens.append(token)
        self.position += size
        self.count = index + 1
        if size > self.max_record_size:
            self.max_record_size = size
        if index == 0:
            self.base_timestamp_ms = timestamp
        elif (
            timestamp == self.last_timestamp_ms
            and key_size == self.last_key_size
            and value_size == self.last_value_size
        ):
            return size
        self.last_timestamp_ms = timestamp
        self.last_key_size = key_size
        self.last_value_size = value_size
        self.runs.append((index, timestamp, key_size, value_size))
        return size


def deliver_records(
    list tokens not None, list runs not None, topic, partition, base_offset, log_append_time_ms
):
    """See ``delivery.deliver_records``."""
    cdef Py_ssize_t step = 0 if base_offset < 0 else 1
    cdef Py_ssize_t index, first, end, number
    cdef Py_ssize_t last = len(runs) - 1
    offset = base_offset
    for number in range(last + 1):
        first, timestamp_ms, key_size, value_size = runs[number]
        end = runs[number + 1][0] if number < last else len(tokens)
        if log_append_time_ms >= 0:
            timestamp_ms = log_append_time_ms
        for index in range(first, end):
            token = tokens[index]
            if not token.done():
                fields = ((topic, partition, offset, timestamp_ms, key_size, value_size),)
                metadata = TUPLE.tp_new(METADATA, <PyObject*>fields, NULL)
                # It holds str and int alone, so no cycle goes through it, and the collector need
                # not look at it; of a plain tuple, CPython finds that out for itself.
                PyObject_GC_UnTrack(<PyObject*>metadata)
                token.set_result(metadata)
            if step:
                offset = offset + 1
