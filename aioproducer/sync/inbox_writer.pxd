cimport cython

from aioproducer.sync.inbox cimport Inbox
from aioproducer.sync.record_outcome cimport Outcomes


cdef class InboxWriter:
    cdef public bint is_open
    cdef public Inbox _inbox
    cdef public object _owner
    cdef public Outcomes _outcomes
    cdef public object _core
    cdef public bint _takes_all
    cdef public object _wall_clock_ns
    cdef public object _max_block
    cdef public Py_ssize_t _woken

    cpdef send(self, topic, value, key, partition, headers, timestamp_ms)
    @cython.locals(size=Py_ssize_t)
    cpdef enter(
        self, future, topic, value, key, partition, headers, timestamp_ms, sent_ns, timeout
    )
    cpdef _enter_taken(self, future, fields, error, sent_ns, timeout)
    @cython.locals(inbox=Inbox)
    cpdef _put(self, tuple entry, timeout)
    @cython.locals(takes=Py_ssize_t)
    cpdef _wake(self)
