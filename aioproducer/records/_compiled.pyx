# cython: language_level=3, binding=False, wraparound=False
"""The innermost loops for C: the same as their references ``builder``, ``short_way``, ``entrance``, ``delivery``.

Every record is written straight into the buffer, whose size is looked at each time: the caller may
have replaced it. Nothing between that look and the last byte runs code of Python.
"""

cimport cython
from cpython.array cimport array
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromObject, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject, PyObject_Call
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libc.time cimport time_t

cdef extern from "Python.h":
    object PyType_GenericAlloc(type, Py_ssize_t)
    void PyObject_GC_UnTrack(PyObject*)
    void PyObject_GC_Track(PyObject*)
    bint PyObject_GC_IsTracked(object)
    unsigned long PyThread_get_thread_ident()

cdef extern from "time.h":
    struct timespec:
        time_t tv_sec
        long tv_nsec
    enum: TIME_UTC
    int timespec_get(timespec*, int) nogil

from asyncio import Future

from aioproducer.model import RecordMetadata
from aioproducer.records.builder import BATCH_OVERHEAD, check_fields, header_bytes
from aioproducer.records.spans import Span

cdef Py_ssize_t RECORDS_BEGIN = BATCH_OVERHEAD
cdef type SPAN = Span
cdef type METADATA = RecordMetadata
cdef type FUTURE = Future


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

    def append_values(self, token, timestamp_ms, list values not None, Py_ssize_t start=0):
        if type(timestamp_ms) is not int:
            check_fields(timestamp_ms, None, None)
        cdef int64_t timestamp = timestamp_ms
        if timestamp < 0:
            check_fields(timestamp_ms, None, None)
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t index
        if start < 0:
            start = max(0, start + len(values))
        for index in range(start, len(values)):
            value = values[index]
            if type(value) is not bytes or not self.write_plain(
                token, timestamp, NULL, -1, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)
            ):
                break
        return self.count - before

    cdef Py_ssize_t write_plain(
        self,
        token,
        int64_t timestamp,
        const char* key,
        Py_ssize_t key_size,
        const char* value,
        Py_ssize_t value_size,
    ) except -1:
        """Write a record without headers; a size of -1 stands for None."""
        cdef int64_t delta = timestamp - self.base_timestamp_ms if self.count else 0
        cdef Py_ssize_t body = (
            2
            + varint_size(delta)
            + varint_size(self.count)
            + varint_size(key_size)
            + max(key_size, 0)
            + varint_size(value_size)
            + max(value_size, 0)
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
        to = write_varint(to, key_size)
        if key_size > 0:
            memcpy(to, key, key_size)
            to += key_size
        to = write_varint(to, value_size)
        if value_size > 0:
            memcpy(to, value, value_size)
            to += value_size
        to[0] = 0
        return self.keep(token, timestamp, key_size, value_size, size)

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


cdef inline int64_t now_ms() noexcept:
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef uint32_t murmur2(bytes key) noexcept:
    """Kafka's ``Utils.murmur2``."""
    cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(key)
    cdef Py_ssize_t rest = PyBytes_GET_SIZE(key)
    cdef uint32_t mixed
    cdef uint32_t digest = <uint32_t>0x9747B28C ^ <uint32_t>rest
    while rest >= 4:
        mixed = at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
        mixed *= <uint32_t>0x5BD1E995
        mixed ^= mixed >> 24
        mixed *= <uint32_t>0x5BD1E995
        digest *= <uint32_t>0x5BD1E995
        digest ^= mixed
        at += 4
        rest -= 4
    if rest > 2:
        digest ^= <uint32_t>at[2] << 16
    if rest > 1:
        digest ^= <uint32_t>at[1] << 8
    if rest > 0:
        digest ^= at[0]
        digest *= <uint32_t>0x5BD1E995
    digest ^= digest >> 13
    digest *= <uint32_t>0x5BD1E995
    return digest ^ digest >> 15


@cython.final
cdef class OpenBatches:
    """See ``short_way.OpenBatches``."""

    cdef public RecordsBuilder keyless
    cdef public list partitions

    def __init__(self):
        self.partitions = []


@cython.final
cdef class ShortWay:
    """See ``short_way.ShortWay``."""

    cdef public bint ignore_keys
    cdef public bint is_open
    cdef readonly dict topics

    def __init__(self, *, ignore_keys=False):
        self.ignore_keys = ignore_keys
        self.is_open = True
        self.topics = {}

    def append(self, token, timestamp_ms, topic, value, key, partition):
        cdef RecordsBuilder builder = self.find(topic, value, key, partition)
        return 0 if builder is None else builder.append(token, timestamp_ms, key, value)

    cpdef RecordsBuilder find(self, topic, value, key, partition):
        cdef OpenBatches batches
        cdef Py_ssize_t number, count
        if (
            not self.is_open
            or type(topic) is not str
            or (value is not None and type(value) is not bytes)
            or (key is not None and type(key) is not bytes)
        ):
            return None
        batches = self.topics.get(topic)
        if batches is None:
            return None
        count = len(batches.partitions)
        if partition is None:
            if key is None or self.ignore_keys:
                return batches.keyless
            if count == 0:
                return None
            number = (murmur2(key) & 0x7FFFFFFF) % <uint32_t>count
        elif type(partition) is not int or not 0 <= partition < count:
            return None
        else:
            number = partition
        return batches.partitions[number]


@cython.final
cdef class Entrance:
    """See ``entrance.PythonEntrance``."""

    cdef unsigned long thread
    cdef object is_running
    cdef object create_future
    cdef dict plain_future
    cdef ShortWay short_way

    def open(self, loop, ShortWay short_way not None):
        self.thread = PyThread_get_thread_ident()
        self.is_running = loop.is_running
        self.create_future = loop.create_future
        self.plain_future = {"loop": loop} if type(loop.create_future()) is FUTURE else None
        self.short_way = short_way

    def close(self):
        self.thread = 0

    cpdef bint serves(self) except -1:
        return self.thread == PyThread_get_thread_ident() and self.is_running()

    def send(self, topic, value, key, partition):
        cdef RecordsBuilder builder
        if self.serves():
            builder = self.short_way.find(topic, value, key, partition)
            if builder is not None:
                future = self.new_future()
                if builder.write(future, now_ms(), key, value, None):
                    return future
        return None

    cdef new_future(self):
        if self.plain_future is None:
            return self.create_future()
        future = PyObject_Call(FUTURE, (), self.plain_future)
        # The collector need not look at it either, over and over for each of thousands: what holds
        # a pending future is let go when it has its outcome, which the producer sees to; it is
        # shown to the collector again if that is an exception, through whose frames it may hold
        # itself.
        PyObject_GC_UnTrack(<PyObject*>future)
        return future

    def append(self, token, topic, value, key, partition):
        cdef RecordsBuilder builder
        if self.serves():
            builder = self.short_way.find(topic, value, key, partition)
            if builder is not None:
                return builder.write(token, now_ms(), key, value, None)
        return 0


def deliver_records(
    list tokens not None, list runs not None, topic, partition, base_offset, log_append_time_ms
):
    """See ``delivery.deliver_records``."""
    cdef bint known = base_offset >= 0
    cdef Py_ssize_t index, first, end, number
    cdef Py_ssize_t last = len(runs) - 1
    told = None
    for number in range(last + 1):
        first, timestamp_ms, key_size, value_size = runs[number]
        end = runs[number + 1][0] if number < last else len(tokens)
        if log_append_time_ms >= 0:
            timestamp_ms = log_append_time_ms
        for index in range(first, end):
            token = tokens[index]
            if token is told:
                continue
            offset = base_offset + index if known else base_offset
            if type(token) is SPAN:
                told = token
                if not token.done():
                    token.deliver(topic, partition, offset)
            elif not token.done():
                metadata = PyType_GenericAlloc(METADATA, 6)
                put(metadata, 0, topic)
                put(metadata, 1, partition)
                put(metadata, 2, offset)
                put(metadata, 3, timestamp_ms)
                put(metadata, 4, key_size)
                put(metadata, 5, value_size)
                # It holds str and int alone, so no cycle goes through it, and the collector need
                # not look at it; of a plain tuple, CPython finds that out for itself.
                PyObject_GC_UnTrack(<PyObject*>metadata)
                token.set_result(metadata)


def fill_places(
    array partitions not None, array offsets not None, span, int partition, int64_t base_offset
):
    """See ``spans.fill_places``."""
    cdef Py_ssize_t first = span.first
    cdef Py_ssize_t count = span.count
    cdef array rows = span.rows
    cdef Py_ssize_t records = len(partitions)
    cdef Py_ssize_t there = records if rows is None else len(rows)
    cdef Py_ssize_t place, number
    cdef int64_t step = 1 if base_offset >= 0 else 0
    cdef int64_t offset = max(base_offset, -1)
    cdef int64_t* chosen = NULL
    if (
        records != len(offsets)
        or first < 0
        or count < 0
        or first > there
        or count > there - first
    ):
        raise IndexError("the records of a span are beyond those that were counted")
    check_type_code(partitions, b"i")
    check_type_code(offsets, b"q")
    if rows is not None:
        check_type_code(rows, b"q")
        chosen = <int64_t*>rows.data.as_longlongs + first
        for number in range(count):
            if not 0 <= chosen[number] < records:
                raise IndexError("the records of a span are beyond those that were counted")
    for number in range(count):
        place = first + number if chosen is NULL else chosen[number]
        partitions.data.as_ints[place] = partition
        offsets.data.as_longlongs[place] = offset
        offset += step


cdef inline int check_type_code(array numbers, char expected) except -1:
    if numbers.ob_descr.typecode != expected:
        raise TypeError(f"an array of type {chr(expected)!r} is needed, not {numbers.typecode!r}")
    return 0


def fail_record(token, error):
    """See ``delivery.fail_record``."""
    if not token.done():
        if type(token) is FUTURE and not PyObject_GC_IsTracked(token):
            PyObject_GC_Track(<PyObject*>token)
        token.set_exception(error)
        token.exception()


cdef inline void put(metadata, Py_ssize_t place, field) noexcept:
    Py_INCREF(field)
    PyTuple_SET_ITEM(metadata, place, field)
