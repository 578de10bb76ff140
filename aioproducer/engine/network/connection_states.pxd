from aioproducer.engine.network.exchange cimport Exchange as CExchange


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
