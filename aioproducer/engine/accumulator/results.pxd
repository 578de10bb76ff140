cimport cython
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch

cdef class Flushes
cdef class LateResults


cdef class Flushes:
    cdef public object _newest
    cdef public object _oldest
    cdef public dict _pending
    cdef public dict _futures
    cdef public dict _waiting

    cpdef began(self, item)
    cpdef done(self, item)
    cpdef moved(self, item, to)
    cpdef _leave(self, generation)


cdef class LateResults:
    cdef public Flushes _flushes
    cdef public double _turned
    cdef public object waiting
    cdef public Py_ssize_t _results_waiting
    cdef public Py_ssize_t set_in_turn

    cpdef deliver(
        self, ProducerBatch batch, base_offset, log_append_time_ms, log_start_offset=*
    )
    @cython.locals(took=double, most=Py_ssize_t)
    cpdef turn(self, double now)
