from aioproducer.engine.network.frames cimport RequestForm


cdef class Completion:
    cdef public object request
    cdef public object node
    cdef public object result
    cdef public object error
    cdef public double latency


cdef class InFlightRequest(Completion):
    cdef public long long correlation_id
    cdef public RequestForm form
    cdef public double sent
    cdef public double deadline
    cdef public object read_usual
    cdef public bint answered
