from aioproducer.foundation.runtime.running_clock cimport RunningClock as CClock


cdef class Wakeup:
    cdef public CClock clock
    cdef public double _now
    cdef public bint _awake
    cdef public object _error
    cdef public object _sleeper
    cdef public object _deadline
    cdef public object _timer
    cdef public double _rings_at

    cpdef wake(self, now=*)
    cpdef double turn(self) except? -1
