from aioproducer.engine.accumulator.producer_batch cimport BatchGrowth
from aioproducer.engine.accumulator.partition cimport Partition
from aioproducer.engine.accumulator.producer_batch cimport ProducerBatch


cdef class Topic:
    cdef public object _backlogs
    cdef public BatchGrowth growth
    cdef public object name
    cdef public object open_builders
    cdef public list partitions
    cdef public object produced
    cdef public dict retired
    cdef public object seen_by_partitioner
    cdef public object share
    cdef public Partition sticky
    cdef public ProducerBatch sticky_batch

    cpdef forget(self, ProducerBatch batch)
    cpdef count_sticky_batch(self)
