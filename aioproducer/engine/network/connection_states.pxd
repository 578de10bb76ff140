from aioproducer.engine.network.exchange cimport Exchange as CExchange
from aioproducer.foundation.runtime.running_clock cimport RunningClock

cdef class NodeConnectionState
cdef class ConnectionTimeouts


cdef class NodeConnectionState:
    cdef public object connection
    cdef public CExchange exchange
    cdef public int failures
    cdef public int setup_failures
    cdef public double not_before
    cdef public bint refused
    cdef public object last_error
    cdef public set unsupported
    cdef public set anomalies
    cdef public object peer
    cdef public double since
    cdef public object failing_since
    cdef public object reachable_since


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
