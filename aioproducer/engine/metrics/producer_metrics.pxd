cimport cython

from aioproducer.engine.metrics.summary cimport Summary, add_values


cdef class ProducerMetrics:
    cdef public object _windows

    cpdef batch_sent(
        self,
        topic,
        long long records,
        double size,
        double uncompressed_size,
        Py_ssize_t largest,
        double queue_time,
        double now,
    )
    cpdef request_built(self, long long records, double now)
    @cython.locals(end="long long", first="long long", sent_ns="long long")
    cpdef records_delivered(self, long long records, marks, long long now_ns, double now)
    cpdef request_sent(self, node_id, Py_ssize_t size, double now)
    cpdef response_received(
        self,
        node_id,
        Py_ssize_t size,
        throttle_time,
        double now,
        latency=*,
        round_trip=*,
    )
