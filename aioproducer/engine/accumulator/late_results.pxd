cimport cython

from aioproducer.engine.accumulator.flushes cimport Flushes
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch


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
