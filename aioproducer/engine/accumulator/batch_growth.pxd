cdef class BatchGrowth:
    cdef public int doublings

    cpdef filled(self, Py_ssize_t records, int most, bint short)
    cpdef left(self, Py_ssize_t size, Py_ssize_t capacity)
