cimport cython

from aioproducer.engine.network.frames cimport EncodedPayload, RequestForm, ResponseCutter
from aioproducer.engine.network.frames cimport InFlightRequest
from aioproducer.foundation.runtime.running_clock cimport RunningClock


cdef class Exchange:
    cdef object __weakref__
    cdef public object transport
    cdef public object in_flight
    cdef public double last_used
    cdef public double login_due
    cdef public double throttled_until
    cdef public bint is_ready
    cdef public bint is_open
    cdef public bint is_reading
    cdef public object ended
    cdef public object closed
    cdef public Py_ssize_t pieces
    cdef public long long correlation_id
    cdef object _node
    cdef object _rest
    cdef str _client_id
    cdef RunningClock _clock
    cdef ResponseCutter _responses
    cdef object _on_usual
    cdef object _on_other
    cdef object _on_written

    cpdef bint is_usable(self) except -1
    @cython.locals(real=double)
    cpdef bint takes(self, double now, Py_ssize_t most, double max_idle) except -1
    @cython.locals(form=RequestForm, size=Py_ssize_t, number="long long")
    cpdef Py_ssize_t send(
        self, EncodedPayload payload, request, double now, double timeout, bint answered=*
    ) except -1
    cdef _write_in_turns(self, pieces)
    @cython.locals(size=Py_ssize_t)
    cpdef _write_next(self)
    cdef _watch_writing(self)
    cpdef resume_writing(self)
    @cython.locals(length=Py_ssize_t, responses=ResponseCutter)
    cpdef buffer_updated(self, Py_ssize_t nbytes)
    cpdef get_buffer(self, sizehint)
    @cython.locals(request=InFlightRequest, now=double)
    cdef _receive(self, bytes body)
    @cython.locals(responses=ResponseCutter)
    cdef _take_responses(self)
    cpdef read_on(self)
    cdef _end(self, error)
