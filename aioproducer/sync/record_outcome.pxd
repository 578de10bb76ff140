cimport cython

from aioproducer.engine.records.entry_token cimport EntryToken


cdef class Outcomes:
    cdef public object lost
    cdef public object thread
    cdef public Py_ssize_t held

    @cython.locals(future=RecordOutcome)
    cpdef future(self, type kind)


cdef class RecordOutcome(EntryToken):
    cdef public Outcomes _outcomes
    cdef public object _results
    cdef public Py_ssize_t _place
    cdef public object _exception
    cdef public list _listeners

    cpdef _begin(self, Outcomes outcomes)
    cpdef bint _fail_if_lost(self) except -1
    cpdef bint done(self) except -1
    cpdef bint cancelled(self) except -1
    cpdef list _listen(self, listener)
    cpdef _tell(self)
    cpdef _wait(self, timeout)


@cython.locals(told=list, outcomes=Outcomes, future=RecordOutcome, place=Py_ssize_t)
cdef list _settle(futures, results)
