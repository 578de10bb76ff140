"""A temporary file, for what Python's ssl only takes from files: private keys."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aioproducer.config.secret import Secret

__all__ = ["private_file"]

_IN_MEMORY: Final = "/dev/shm"


@contextmanager
def private_file(content: Secret) -> Iterator[str]:
    """The path of a file with ``content``, which ends with the block.

    On Linux it is memory without a name, which no other user can open. Elsewhere it is a file that
    only this user may read, in a directory in memory where there is one.
    """
    named = ""
    descriptor = _anonymous_file()
    if descriptor < 0:
        directory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        descriptor, named = tempfile.mkstemp(prefix="aioproducer-", dir=directory)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content.reveal().encode("latin-1"))
        yield named or f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
        if named:
            os.unlink(named)  # Windows keeps a file that is open


def _anonymous_file() -> int:
    """A descriptor of memory that /proc gives a path to; -1 where there is no such thing."""
    if sys.platform != "linux":
        return -1
    try:
        descriptor = os.memfd_create("aioproducer")
    except OSError:  # an old kernel, or one that forbids it
        return -1
    if os.access(f"/proc/self/fd/{descriptor}", os.R_OK):
        return descriptor
    os.close(descriptor)
    return -1
