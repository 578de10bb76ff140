cimport cython

from aioproducer.engine.accumulator.flushes cimport Flushes
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch


cdef class LateResults:
    cdef public Flushes _flushes
    cdef public object _routes
    cdef public Py_ssize_t _came
    cdef public Py_ssize_t _came_before
    cdef public object waiting
    cdef public Py_ssize_t _results_waiting
    cdef public Py_ssize_t set_in_turn

    cpdef deliver(
        self, ProducerBatch batch, base_offset, log_append_time_ms, log_start_offset=*
    )
    cpdef turn(self)
    @cython.locals(sent=Py_ssize_t)
    cpdef Py_ssize_t _left_in_turn(self) except? -1
