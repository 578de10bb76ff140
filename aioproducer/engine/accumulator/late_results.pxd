cimport cython

from aioproducer.engine.accumulator.flushes cimport Flushes
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch


cdef class LateResults:
    cdef public Flushes _flushes
    cdef public object _routes
    cdef public Py_ssize_t _came
    cdef public object _waiting
    cdef public Py_ssize_t _set_in_turn

    @cython.locals(count=Py_ssize_t)
    cpdef deliver(
        self, ProducerBatch batch, base_offset, log_append_time_ms, log_start_offset=*
    )
    @cython.locals(came=Py_ssize_t, more=Py_ssize_t)
    cpdef turn(self)
    @cython.locals(new=Py_ssize_t)
    cpdef Py_ssize_t _left_in_turn(self) except? -1
