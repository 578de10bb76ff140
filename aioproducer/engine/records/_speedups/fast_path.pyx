# cython: language_level=3, binding=False, wraparound=False
"""The compiled form of ``route_cache`` and ``fast_path.PythonFastPath``.

Both are in one module, because every record would pay for the costlier call between modules.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject_Call
from cpython.unicode cimport PyUnicode_AsUTF8String
from libc.stdint cimport int64_t
from libc.time cimport time_t

from aioproducer.engine.records._speedups.builder cimport RecordsBuilder
from aioproducer.engine.records._speedups.cpython_internals cimport untrack
from aioproducer.engine.records._speedups.route cimport route
from aioproducer.engine.records.entry_token cimport EntryToken

cdef extern from "Python.h":
    unsigned long PyThread_get_thread_ident()
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1

cdef extern from "time.h":
    struct timespec:
        time_t tv_sec
        long tv_nsec
    enum: TIME_UTC
    int timespec_get(timespec*, int) nogil

from asyncio import Future
from time import time_ns

from aioproducer.engine.records.builder import header_bytes
from aioproducer.engine.records.route_cache import ENTRY
from aioproducer.errors import ProducerError

cdef Py_ssize_t FIELDS = ENTRY
cdef bytes NO_HEADERS = b"\0"
cdef type FUTURE = Future


@cython.final
cdef class OpenBuilders:
    """See ``route_cache.OpenBuilders``."""

    cdef public RecordsBuilder sticky
    cdef public list partitions

    def __init__(self):
        self.partitions = []


@cython.final
cdef class RouteCache:
    """See ``route_cache.RouteCache``."""

    cdef public bint ignore_keys
    cdef public bint is_open
    cdef readonly dict topics
    cdef public RecordsBuilder last
    cdef public Py_ssize_t came

    def __init__(self, *, ignore_keys=False):
        self.ignore_keys = ignore_keys
        self.is_open = True
        self.topics = {}

    def append(self, token, int64_t sent_ns, timestamp_ms, topic, value, key, partition):
        cdef RecordsBuilder builder = self.find(topic, value, key, partition)
        if builder is None:
            return 0
        self.last = builder
        if timestamp_ms is None:
            timestamp_ms = sent_ns // 1_000_000
        builder.mark(sent_ns)
        return builder.append(token, timestamp_ms, key, value)

    def append_entries(self, list entries not None, Py_ssize_t start, Py_ssize_t stop):
        cdef Py_ssize_t place
        if start < 0 or stop > len(entries) // FIELDS:
            raise IndexError("there are fewer entries")
        for place in range(start, stop):
            if not self.append_entry(entries, place * FIELDS):
                return place - start
        return max(0, stop - start)

    cdef Py_ssize_t append_entry(self, list entries, Py_ssize_t at) except -1:
        cdef RecordsBuilder builder
        cdef int64_t timestamp, sent
        cdef Py_ssize_t size
        cdef EntryToken token
        if not isinstance(entries[at], EntryToken):
            return 0
        token = entries[at]
        value, key, timestamp_ms = entries[at + 2], entries[at + 3], entries[at + 6]
        sent = time_of(entries[at + 7])
        timestamp = sent // 1_000_000 if timestamp_ms is None else time_of(timestamp_ms)
        if (
            entries[at + 5] is not None
            or sent < 0
            or timestamp < 0
            or token._state != "PENDING"
        ):
            return 0
        builder = self.find(entries[at + 1], value, key, entries[at + 4])
        if builder is None:
            return 0
        self.last = builder
        token._state = "RUNNING"
        builder.mark(sent)
        size = builder.write(token, timestamp, key, value, NO_HEADERS)
        if not size:
            token._state = "PENDING"
        return size

    cpdef bint takes(self, topic, value, key, partition) except -1:
        return (
            self.is_open
            and type(topic) is str
            and (value is None or type(value) is bytes)
            and (key is None or type(key) is bytes)
            and (partition is None or type(partition) is int)
            and topic in self.topics
        )

    cpdef RecordsBuilder find(self, topic, value, key, partition):
        if not self.takes(topic, value, key, partition):
            return None
        return self.found(topic, key, partition)

    cdef RecordsBuilder found(self, topic, key, partition):
        """The open builder for a record that :meth:`takes` takes; None: there is none."""
        cdef OpenBuilders batches = self.topics[topic]
        cdef Py_ssize_t number
        cdef int64_t named = 0
        cdef int overflow = 0
        cdef const char* data = NULL
        cdef Py_ssize_t size = -1
        if partition is not None:
            named = PyLong_AsLongLongAndOverflow(partition, &overflow)
            if overflow:
                return None
        elif key is not None and not self.ignore_keys:
            data, size = PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)
        number = route(data, size, partition is not None, named, len(batches.partitions))
        if number >= 0:
            return batches.partitions[number]
        return batches.sticky if number == -1 else None


cdef inline object utf8(field):
    """See ``fast_path.utf8``."""
    if type(field) is str:
        try:
            return PyUnicode_AsUTF8String(field)
        except UnicodeEncodeError:
            pass
    return field


cdef inline int64_t time_of(number) except? -1:
    """A time as C has it; -1: it is none."""
    cdef int overflow = 0
    if type(number) is not int:
        return -1
    cdef int64_t time = PyLong_AsLongLongAndOverflow(number, &overflow)
    return -1 if overflow or time < 0 else time


cdef inline int64_t now_ns() noexcept:
    cdef timespec now
    timespec_get(&now, TIME_UTC)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


@cython.final
cdef class FastPath:
    """See ``fast_path.PythonFastPath``."""

    cdef unsigned long thread
    cdef object is_running
    cdef object create_future
    cdef object begin
    cdef object clock
    cdef object wall_clock_ns
    cdef dict plain_future
    cdef RouteCache routes
    cdef object context_of
    cdef object skipped_in
    cdef Py_ssize_t to_skip
    cdef tuple headers
    cdef bytes tail

    def __init__(self):
        self.trace(None)

    def trace(self, context_of):
        self.context_of = context_of
        self.skipped_in = None
        self.to_skip = 0
        self.headers = ()
        self.tail = NO_HEADERS

    def skip(self, context, Py_ssize_t records, headers):
        cdef tuple pairs = tuple(headers)
        self.tail = header_bytes(pairs) if pairs else NO_HEADERS
        self.headers = pairs
        self.skipped_in = context
        self.to_skip = records

    def take_skipped(self, context):
        if self.to_skip <= 0 or self.skipped_in is not context:
            return None
        self.to_skip -= 1
        return self.headers

    cdef bint must_ask(self) noexcept:
        """True if it has to be decided whether the record is traced."""
        if self.to_skip <= 0:
            return True
        try:
            return self.context_of() is not self.skipped_in
        except Exception:
            return True

    def open(self, loop, RouteCache routes not None, begin, clock, wall_clock_ns=time_ns):
        self.thread = PyThread_get_thread_ident()
        self.is_running = loop.is_running
        self.create_future = loop.create_future
        self.plain_future = {"loop": loop} if type(loop.create_future()) is FUTURE else None
        self.routes = routes
        self.begin = begin
        self.clock = clock
        # A call of the system's clock by Python would cost more than all of it.
        self.wall_clock_ns = None if wall_clock_ns is time_ns else wall_clock_ns

    def close(self):
        self.thread = 0

    cpdef bint serves(self) except -1:
        return self.thread == PyThread_get_thread_ident() and self.is_running()

    def send(self, topic, value, key, partition):
        cdef RecordsBuilder builder
        cdef int64_t now
        if self.serves():
            if self.context_of is not None and self.must_ask():
                return None
            value, key = utf8(value), utf8(key)
            if self.routes.takes(topic, value, key, partition):
                builder = self.routes.found(topic, key, partition)
                future = self.new_future()
                now = self.now_ns()
                if builder is not None:
                    self.routes.last = builder
                    builder.mark(now)
                    if builder.write(future, now // 1_000_000, key, value, self.tail):
                        self.routes.came += 1
                        self.to_skip -= 1
                        return future
                if self.begins(topic, partition, key, value, future, now):
                    self.to_skip -= 1
                    return future
        return None

    cdef bint begins(self, topic, partition, key, value, future, int64_t now) except -1:
        """True if a batch was begun for the record; False: it takes the long way."""
        try:
            return self.begin(
                topic,
                partition,
                now // 1_000_000,
                key,
                value,
                self.headers,
                future,
                now,
                self.clock(),
            )
        except ProducerError:
            return False

    cdef int64_t now_ns(self) except -1:
        return now_ns() if self.wall_clock_ns is None else self.wall_clock_ns()

    cdef new_future(self):
        if self.plain_future is None:
            return self.create_future()
        future = PyObject_Call(FUTURE, (), self.plain_future)
        # The collector would visit each of thousands of futures, a quarter of all costs. A pending
        # future may be in a cycle with the task that awaits it; the producer breaks such cycles
        # before its loop ends. A done future holds metadata and its loop, which leads back to it
        # only through users' attributes. A failed future is shown to the collector again.
        untrack(future)
        return future

    def append(self, token, topic, value, key, partition):
        cdef RecordsBuilder builder
        cdef int64_t now
        if self.serves():
            value, key = utf8(value), utf8(key)
            builder = self.routes.find(topic, value, key, partition)
            if builder is not None:
                self.routes.last = builder
                now = self.now_ns()
                builder.mark(now)
                return builder.write(token, now // 1_000_000, key, value, NO_HEADERS)
        return 0
