cimport cython


cdef class Summary:
    cdef public long long count
    cdef public double total
    cdef public double _greatest
    cdef public object _buckets


@cython.locals(microseconds="long long", bucket="long long", shift=int)
cpdef add_values(Summary summary, double value, long long count)
