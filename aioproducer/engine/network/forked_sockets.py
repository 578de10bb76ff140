"""The sockets of connections in a forked child, where each is replaced by a dead one.

Parent and child share a connection and the event loop's epoll. A child that reads, writes, ends TLS
or takes a descriptor out of the epoll would disturb the parent, and a child that only lives keeps
the connection open after the parent's end. So the child gets dead sockets in place of its copies,
before it can do anything.
"""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from contextlib import suppress
from typing import Final, Protocol

from aioproducer.foundation.runtime import forks


class Connected(Protocol):
    """The protocol of an open transport."""

    @property
    def transport(self) -> asyncio.BaseTransport: ...


_CONNECTED: Final[weakref.WeakSet[Connected]] = weakref.WeakSet()
"""Not the transports: uvloop's for TLS take no weak reference."""


_BEING_SET_UP: Final[weakref.WeakSet[socket.socket]] = weakref.WeakSet()


def leave_to_parent(connected: Connected) -> None:
    """Have the socket of an open connection replaced in each forked child."""
    _CONNECTED.add(connected)


def leave_socket_to_parent(connected: socket.socket) -> None:
    """Have a socket that no transport has yet replaced in each forked child."""
    _BEING_SET_UP.add(connected)


def replace_socket(transport: asyncio.BaseTransport) -> None:
    """Put a socket without a peer in the place of the transport's own."""
    shared = transport.get_extra_info("socket")
    if shared is None or transport.is_closing():  # its descriptor may be another file's by now
        return
    _replace(shared.fileno())


def _replace(descriptor: int) -> None:
    with suppress(OSError), socket.socket() as dead:
        os.dup2(dead.fileno(), descriptor, inheritable=False)


def _replace_all() -> None:
    for connected in list(_CONNECTED):
        replace_socket(connected.transport)
    for being_set_up in list(_BEING_SET_UP):
        if (descriptor := being_set_up.fileno()) >= 0:
            _replace(descriptor)


forks.in_child(_replace_all)
