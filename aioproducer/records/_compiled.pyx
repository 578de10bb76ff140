# cython: language_level=3, binding=False, wraparound=False
"""The innermost loops for C, the same as their references: ``builder``, ``columns``, ``short_way``,
``entrance``, ``delivery`` and ``spans``.

Every record is written straight into the buffer, whose size is looked at each time: the caller may
have replaced it. Nothing between that look and the last byte runs code of Python.
"""

cimport cython
from cpython.array cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_FromObject,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.long cimport PyLong_AsLongLongAndOverflow
from cpython.object cimport PyObject, PyObject_Call
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy
from libc.time cimport time_t

cdef extern from "Python.h":
    object PyType_GenericAlloc(type, Py_ssize_t)
    void PyObject_GC_UnTrack(PyObject*)
    void PyObject_GC_Track(PyObject*)
    bint PyObject_GC_IsTracked(object)
    unsigned long PyThread_get_thread_ident()

cdef extern from *:
    """
    #if PY_VERSION_HEX >= 0x030E0000  /* a tuple keeps its hash; -1: it was not asked for */
    #define forget_hash(tuple) (((PyTupleObject*)(tuple))->ob_hash = -1)
    #else
    #define forget_hash(tuple) ((void)0)
    #endif
    """
    void forget_hash(object)

cdef extern from "time.h":
    struct timespec:
        time_t tv_sec
        long tv_nsec
    enum: TIME_UTC
    int timespec_get(timespec*, int) nogil

from asyncio import Future

from aioproducer.errors import SerializationError
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


cdef inline Py_ssize_t size_of(bytes field) noexcept:
    return -1 if field is None else PyBytes_GET_SIZE(field)


cdef inline const char* start_of(bytes field) noexcept:
    return NULL if field is None else PyBytes_AS_STRING(field)


cdef inline char* write_field(char* to, const char* field, Py_ssize_t size) noexcept:
    to = write_varint(to, size)
    if size > 0:
        memcpy(to, field, size)
        to += size
    return to


cdef class Column:
    """See ``columns``; what all of them have."""

    cdef Py_buffer validity
    cdef Py_buffer data
    cdef Py_ssize_t first
    cdef Py_ssize_t count
    cdef Py_ssize_t width

    def __dealloc__(self):
        PyBuffer_Release(&self.validity)
        PyBuffer_Release(&self.data)

    def __len__(self):
        return self.count

    cdef int begin(self, validity, data, Py_ssize_t first, Py_ssize_t count, bint wide) except -1:
        if self.width:
            raise TypeError("a column is made once")
        self.first = first
        self.width = 8 if wide else 4
        PyObject_GetBuffer(b"" if data is None else data, &self.data, PyBUF_SIMPLE)
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity, PyBUF_SIMPLE)
        if first < 0 or count < 0:
            raise SerializationError("a column begins and ends within its buffers")
        if validity is not None and count and self.validity.len * 8 - first < count:
            raise SerializationError("a column's bitmap of nulls is too short")
        self.count = count
        return 0

    cdef Py_ssize_t place(self, Py_ssize_t row) except -2:
        """Where the row is in the buffers; -1 if it is null."""
        if not 0 <= row < self.count:
            raise IndexError(f"the column has {self.count} rows, and no row {row}")
        cdef Py_ssize_t place = self.first + row
        cdef const unsigned char* bits = <const unsigned char*>self.validity.buf
        if bits is not NULL and not bits[place >> 3] >> (place & 7) & 1:
            return -1
        return place


@cython.final
cdef class BinaryColumn(Column):
    """See ``columns.BinaryColumn``."""

    cdef Py_buffer offsets

    def __init__(self, validity, offsets, data, Py_ssize_t first, Py_ssize_t count, *, bint wide):
        self.begin(validity, data, first, count, wide)
        PyObject_GetBuffer(b"" if offsets is None else offsets, &self.offsets, PyBUF_SIMPLE)
        if count and self.offsets.len // self.width - 1 - first < count:
            self.count = 0
            raise SerializationError("a column has fewer offsets than rows")

    def __dealloc__(self):
        PyBuffer_Release(&self.offsets)

    cdef Py_ssize_t read(self, Py_ssize_t row, const char** at) except -2:
        """The size of the row's bytes, and where they are; -1: it is null."""
        cdef Py_ssize_t place = self.place(row)
        cdef int64_t begin, end
        if place < 0:
            return -1
        if self.width == 8:
            begin = (<const int64_t*>self.offsets.buf)[place]
            end = (<const int64_t*>self.offsets.buf)[place + 1]
        else:
            begin = (<const int32_t*>self.offsets.buf)[place]
            end = (<const int32_t*>self.offsets.buf)[place + 1]
        if not 0 <= begin <= end <= self.data.len:
            raise SerializationError("a column's offsets do not fit its data")
        at[0] = <const char*>self.data.buf + begin
        return end - begin

    def __getitem__(self, Py_ssize_t row):
        cdef const char* at = NULL
        cdef Py_ssize_t size = self.read(row, &at)
        return None if size < 0 else PyBytes_FromStringAndSize(at, size)


@cython.final
cdef class IntColumn(Column):
    """See ``columns.IntColumn``."""

    def __init__(self, validity, data, Py_ssize_t first, Py_ssize_t count, *, bint wide):
        self.begin(validity, data, first, count, wide)
        if count and self.data.len // self.width - first < count:
            self.count = 0
            raise SerializationError("a column has fewer numbers than rows")

    cdef bint read(self, Py_ssize_t row, int64_t* number) except -1:
        """Whether the row is not null, and its number."""
        cdef Py_ssize_t place = self.place(row)
        if place < 0:
            return False
        if self.width == 8:
            number[0] = (<const int64_t*>self.data.buf)[place]
        else:
            number[0] = (<const int32_t*>self.data.buf)[place]
        return True

    def __getitem__(self, Py_ssize_t row):
        cdef int64_t number = 0
        return number if self.read(row, &number) else None


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
        cdef int64_t timestamp = checked_time(timestamp_ms)
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t index
        if start < 0:
            start = max(0, start + len(values))
        for index in range(start, len(values)):
            value = values[index]
            if type(value) is not bytes or not self.write_fields(
                token, timestamp, NULL, -1, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), b"\0"
            ):
                break
        return self.count - before

    def append_rows(self, span, timestamp_ms, columns, Py_ssize_t base, Py_ssize_t stop):
        cdef int64_t timestamp = checked_time(timestamp_ms)
        cdef BinaryColumn values = columns.values
        cdef BinaryColumn keys = columns.keys
        cdef IntColumn timestamps = columns.timestamps
        cdef array rows = span.rows
        cdef Py_ssize_t before = self.count
        cdef Py_ssize_t key_size = -1
        cdef const char* key = NULL
        cdef const char* value = NULL
        cdef Py_ssize_t place, row, value_size
        cdef int64_t at
        if values is None:
            raise TypeError("there is no column of values")
        if rows is not None:
            check_type_code(rows, b"q")
        for place in range(span.first, stop):
            if rows is None:
                row = place - base
            elif 0 <= place < len(rows):
                row = rows.data.as_longlongs[place] - base
            else:
                raise IndexError("there are fewer rows")
            at = timestamp
            if timestamps is not None:
                timestamps.read(row, &at)
            if keys is not None:
                key_size = keys.read(row, &key)
            value_size = values.read(row, &value)
            if at < 0 or not self.write_fields(
                span, at, key, key_size, value, value_size, b"\0"
            ):
                break
        return self.count - before

    cdef Py_ssize_t write(self, token, int64_t timestamp, key, value, headers) except -1:
        cdef bytes key_bytes = None if key is None else PyBytes_FromObject(key)
        cdef bytes value_bytes = None if value is None else PyBytes_FromObject(value)
        cdef bytes tail = header_bytes(headers) if headers else b"\0"
        return self.write_fields(
            token,
            timestamp,
            start_of(key_bytes),
            size_of(key_bytes),
            start_of(value_bytes),
            size_of(value_bytes),
            tail,
        )

    cdef Py_ssize_t write_fields(
        self,
        token,
        int64_t timestamp,
        const char* key,
        Py_ssize_t key_size,
        const char* value,
        Py_ssize_t value_size,
        bytes tail,
    ) except -1:
        """Write a record; a size of -1 stands for None, and ``tail`` is what comes behind."""
        cdef int64_t delta = timestamp - self.base_timestamp_ms if self.count else 0
        cdef Py_ssize_t body = (
            1
            + varint_size(delta)
            + varint_size(self.count)
            + varint_size(key_size)
            + max(key_size, 0)
            + varint_size(value_size)
            + max(value_size, 0)
            + PyBytes_GET_SIZE(tail)
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
        to = write_field(to, key, key_size)
        to = write_field(to, value, value_size)
        memcpy(to, PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
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
        # To make it may have run the collector, and a finalizer that sends (in Python 3.11).
        if len(self.runs) > 1 and self.runs[len(self.runs) - 2][0] > index:
            self.runs.sort()
        return size


cdef int64_t checked_time(timestamp_ms) except -1:
    if type(timestamp_ms) is not int:
        check_fields(timestamp_ms, None, None)
    cdef int64_t timestamp = timestamp_ms
    if timestamp < 0:
        check_fields(timestamp_ms, None, None)
    return timestamp


cdef inline int64_t now_ms() noexcept:
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1_000_000


cdef uint32_t murmur2(const char* key, Py_ssize_t rest) noexcept:
    """Kafka's ``Utils.murmur2``."""
    cdef const unsigned char* at = <const unsigned char*>key
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


cdef inline Py_ssize_t partition_of(const char* key, Py_ssize_t size, Py_ssize_t count) noexcept:
    return (murmur2(key, size) & 0x7FFFFFFF) % <uint32_t>count


def rows_by_partition(
    columns, Py_ssize_t base, Py_ssize_t start, Py_ssize_t stop, int count, *, bint ignore_keys
):
    """See ``columns.rows_by_partition``."""
    if count < 1 or start > stop:
        raise ValueError("there are rows and partitions")
    cdef IntColumn partitions = columns.partitions
    cdef BinaryColumn keys = None if ignore_keys else columns.keys
    cdef array groups = array("q", bytes(8 * (stop - start)))
    cdef array ends = array("q", bytes(8 * (count + 2)))
    cdef int64_t* group_of = <int64_t*>groups.data.as_longlongs
    cdef int64_t* end_of = <int64_t*>ends.data.as_longlongs
    cdef Py_ssize_t place, size
    cdef Py_ssize_t taken = 0
    cdef const char* key = NULL
    cdef int64_t group, partition = 0
    for place in range(stop - start):
        if partitions is not None and partitions.read(start + place, &partition):
            group = partition + 2 if 0 <= partition < count else 0
        else:
            size = -1 if keys is None else keys.read(start + place, &key)
            group = 1 if size < 0 else 2 + partition_of(key, size, count)
        if place and (group == 1) != (group_of[0] == 1):
            break
        group_of[place] = group
        end_of[group] += 1
        taken += 1

    found = []
    cdef int64_t end = 0
    for group in range(count + 2):
        if end_of[group]:
            found.append((group - 2, end, end + end_of[group]))
            end += end_of[group]
            end_of[group] = end - end_of[group]
    cdef array rows = array("q", bytes(8 * taken))
    for place in range(taken):
        group = group_of[place]
        rows.data.as_longlongs[end_of[group]] = base + start + place
        end_of[group] += 1
    return rows, found


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
            number = partition_of(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key), count)
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
        # Else the collector visits each of thousands several times, a quarter of all costs. While
        # it is pending, the task that awaits it may be part of a cycle with it: the producer sees to
        # it that none stays so while its loop runs. Done, it holds metadata and its loop, which
        # leads back to it only by what users attach; failed, it is shown to the collector again.
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
                forget_hash(metadata)
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
