cimport cython


cdef class NodeQuota:
    cdef public Py_ssize_t total
    cdef public bint guarantees
    cdef public Py_ssize_t used
    cdef public Py_ssize_t part
    cdef public dict used_by
    cdef public Py_ssize_t free_for_all
    cdef public set _members
    cdef public Py_ssize_t _committed

    @cython.locals(before=Py_ssize_t, after=Py_ssize_t, part=Py_ssize_t)
    cpdef take(self, node, Py_ssize_t units)
    @cython.locals(kept=Py_ssize_t)
    cpdef Py_ssize_t room(self, node) except? -1
    cpdef bint allows(self, node, Py_ssize_t units) except -1


cdef class BufferPool:
    cdef public Py_ssize_t total
    cdef public Py_ssize_t poolable_size
    cdef public NodeQuota quota
    cdef public Py_ssize_t _unpooled
    cdef public dict _kept
    cdef public Py_ssize_t _kept_bytes
    cdef public bint _closed

    cpdef Py_ssize_t room(self, node) except? -1
    @cython.locals(quota=NodeQuota, kept=list)
    cpdef bytearray try_allocate(self, Py_ssize_t size, node)
    @cython.locals(size=Py_ssize_t, kept=list)
    cpdef deallocate(self, bytearray buffer, node)
    cpdef move(self, Py_ssize_t size, node, to)
