"""Locks, and the rule for everything that several threads share.

A call can come in the midst of another call of the same thread: a signal handler runs after calls
of the main thread, and the collector runs finalizers as any thread makes a container.
Both may send, flush and close. The interrupted call goes on only after they return. If it holds a
lock meanwhile, whoever needs the lock waits for ever: the handler itself, or an event loop that the
handler waits for. A reentrant lock helps only the handler itself. Therefore:

1. Nothing that a producer's call needs has a lock. Threads share data by operations that the
   interpreter does in one step (``list +=``, ``list.pop``, ``dict.setdefault``, ``deque.append``),
   by ``SimpleQueue``, whose ``put()`` is reentrant, and by ``loop.call_soon_threadsafe()``. A look
   and a change are one step as well, without a call or a new container between them.
2. A field has one thread that writes it, and a reader may see it a moment late. A waiter says so
   first and looks afterwards; a change comes first, its notification afterwards.
3. ``threading.Event``, ``Condition``, ``queue.Queue`` and the futures of ``concurrent.futures``
   hold locks within, so no thread of the producer waits on them, or resolves them.
4. Locks guard slow work of other threads, such as reading certificates. They are made here, and
   nothing that an event loop or a signal handler calls takes one.
"""

from __future__ import annotations

import weakref
from threading import RLock
from typing import Final

from aioproducer.foundation.runtime import forks

_LOCKS: Final[weakref.WeakSet[RLock]] = weakref.WeakSet()


def free_lock() -> RLock:
    """A reentrant lock that each forked child finds free, for data that is whole at each point.

    A lock that another thread held at the fork would stay held for ever: the child has no such
    thread.
    """
    lock = RLock()
    _LOCKS.add(lock)
    return lock


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock._at_fork_reinit()  # type: ignore[attr-defined]


forks.in_child(_free_all)
