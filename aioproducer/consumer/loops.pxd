cdef class _Loop:
    cdef object _source
    cdef object _progress
    cdef object _session
    cdef object _check


cdef class Records(_Loop):
    cdef object _cursor
    cdef object _last
    cdef object _time
    cdef double _until


cdef class Batches(_Loop):
    pass


cdef class Lists(_Loop):
    cdef Py_ssize_t _max_records
