cimport cython

from aioproducer.engine.accumulator.producer_batch cimport BatchGrowth
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch

cdef class Partition
cdef class Backlogs


cdef class Backlog:
    cdef public bint is_due
    cdef public object node
    cdef public object not_ready_since
    cdef public double oldest
    cdef public object partitions

    @cython.locals(partition=Partition, first=ProducerBatch, size=Py_ssize_t, more=Py_ssize_t)
    cpdef list take(self, Py_ssize_t most_bytes, double now)
    @cython.locals(partition=Partition, size=Py_ssize_t)
    cpdef _fill(self, list taken, Py_ssize_t room, Py_ssize_t enough, double now)
    cpdef bint is_short(self, Py_ssize_t size, Py_ssize_t most_bytes, bint held) except -1


cdef class Partition:
    cdef public object _acknowledged
    cdef public Backlogs _backlogs
    cdef public object _barrier
    cdef public object _forgotten
    cdef public object _next_place
    cdef public object _unplaced
    cdef public list aside
    cdef public Backlog backlog
    cdef public double delayed_until
    cdef public Py_ssize_t futures
    cdef public BatchGrowth growth
    cdef public Py_ssize_t held
    cdef public list in_flight
    cdef public bint is_listed
    cdef public object leader
    cdef public object log_end
    cdef public ProducerBatch open_batch
    cdef public object pending
    cdef public object queue
    cdef public object topic_partition

    @cython.locals(first=ProducerBatch, backlog=Backlog)
    cpdef line_up(self, double now)
    cpdef open(self, ProducerBatch batch, double now)
    cpdef close_batch(self)
    @cython.locals(batch=ProducerBatch, growth=BatchGrowth)
    cpdef ProducerBatch take(self, double now)
    cpdef hold(self, Py_ssize_t size)
    cpdef count_futures(self, Py_ssize_t futures)


cdef class Backlogs:
    cdef public object _ticket
    cdef public object add_to_transaction
    cdef public dict by_node
    cdef public list delayed
    cdef public bint held
    cdef public bint in_order
    cdef public Backlog leaderless
    cdef public bint one_at_a_time

    cpdef Backlog of(self, leader)
