cimport cython

from aioproducer.engine.records.entry_token cimport EntryToken
from aioproducer.engine.records._speedups.delivery cimport RecordResults as Results
from aioproducer.sync.inbox cimport Inbox


cdef class Message(EntryToken):
    cdef public object _callback
    cdef public object _count
    cdef public object _epoch
    cdef public object _error
    cdef public object _headers
    cdef public object _key
    cdef public object _kind
    cdef public object _latency
    cdef public object _offset
    cdef public object _outbox
    cdef public object _partition
    cdef public long long _sent_ns
    cdef public Py_ssize_t _size
    cdef public object _time
    cdef public object _topic
    cdef public object _value


cdef class Outcome:
    cdef Outbox _outbox
    cdef list _messages
    cdef Results _results
    cdef object _error
    cdef Py_ssize_t _next
    cdef public object kind
    cdef public long long time_ns

    @cython.locals(outbox=Outbox)
    cpdef serve(self)
    @cython.locals(message=Message, messages=list, count=Py_ssize_t, silent=bint)
    cdef _call(self, Outbox outbox)


cdef class Outbox:
    cdef public bint only_errors
    cdef public object events
    cdef public Py_ssize_t entered
    cdef public Py_ssize_t served
    cdef public long long bytes_entered
    cdef public long long bytes_served
    cdef public bint is_asleep
    cdef public bint takes_records
    cdef public bint is_closed
    cdef public object soon
    cdef public list serving
    cdef public list waiting
    cdef list _failed
    cdef object _reason


@cython.locals(results=Results)
cdef _tell(Message message, Outcome outcome, Py_ssize_t place)


@cython.locals(message=Message, outbox=Outbox, intake=Inbox)
cdef _enter(
    RecordCalls calls,
    worker,
    str topic,
    value,
    key,
    partition,
    chosen,
    pairs,
    stamp,
    callback,
    Py_ssize_t size,
)


cdef class RecordCalls:
    cdef public bint _by_crc
    cdef public object _choose
    cdef public bint _chooses_keyless
    cdef public Inbox _intake
    cdef public long long _max_bytes
    cdef public Py_ssize_t _max_messages
    cdef public Py_ssize_t _max_size
    cdef public object _on_delivery
    cdef public Outbox _outbox
    cdef public dict _topics
    cdef public object _transactions
    cdef public object _worker

    cpdef _partition_of(self, topic, key)
