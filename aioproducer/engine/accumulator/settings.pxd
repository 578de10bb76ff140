from aioproducer.engine.accumulator.batch_growth cimport BatchGrowth


cdef class BatchSizes:
    cdef public object _settings
    cdef public object _expansion
    cdef public dict _limits
    cdef public Py_ssize_t most

    cpdef full(self, topic, BatchGrowth growth)
    cpdef filled(self, BatchGrowth growth, Py_ssize_t records, bint short)
