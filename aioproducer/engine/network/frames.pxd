cimport cython

cdef class EncodedPayload
cdef class RequestForm
cdef class ResponseCutter
cdef class Completion
cdef class InFlightRequest


cdef class EncodedPayload:
    cdef public object api
    cdef public int version
    cdef public object parts
    cdef public object read_usual


cdef class RequestForm:
    cdef public object api
    cdef public int version
    cdef public bytes head
    cdef public bytes tail
    cdef public Py_ssize_t size
    cdef public str label


@cython.locals(size=Py_ssize_t)
cpdef tuple encode_request(parts, long long correlation_id, RequestForm form)


cdef class ResponseCutter:
    cdef public bytes _data
    cdef public Py_ssize_t _start
    cdef public object _length
    cdef public list _held
    cdef public Py_ssize_t _held_size
    cdef public Py_ssize_t _wanted
    cdef public bint is_between
    cdef object _shared
    cdef object _part
    cdef public object _kept
    cdef public object place
    cdef public bint is_large


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
