cimport cython


cdef class RunningClock:
    cdef public object _source
    cdef public double limit
    cdef public double lost

    @cython.locals(now=double)
    cpdef double turn(self) except? -1
    @cython.locals(soon=double)
    cpdef expect_turn(self, now=*)
    cpdef double outside(self) except? -1
