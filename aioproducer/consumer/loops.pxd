cimport cython


cdef class Records:
    cdef object _source
    cdef object _cursor
    cdef object _progress
    cdef object _session
    cdef object _check
    cdef object _last
    cdef object _time
    cdef double _until
