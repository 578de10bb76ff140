from aioproducer.foundation.runtime.running_clock cimport RunningClock


cdef class ConnectionTimeouts:
    cdef public double request_timeout
    cdef public double max_idle
    cdef public RunningClock clock
    cdef public double look_at
    cdef public double shortest
    cdef public double patience
    cdef public double _lost

    cpdef request_sent(self, double now)
    cpdef next(self)
