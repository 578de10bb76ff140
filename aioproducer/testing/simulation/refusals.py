"""The methods of an event loop that need the machine: a simulated loop refuses them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

Loop = TypeVar("Loop", bound=asyncio.AbstractEventLoop)

_REFUSED: Final = (
    "add_reader",
    "add_signal_handler",
    "add_writer",
    "connect_accepted_socket",
    "connect_read_pipe",
    "connect_write_pipe",
    "create_datagram_endpoint",
    "create_unix_connection",
    "create_unix_server",
    "getaddrinfo",
    "getnameinfo",
    "remove_signal_handler",
    "sendfile",
    "sock_accept",
    "sock_connect",
    "sock_recv",
    "sock_recv_into",
    "sock_recvfrom",
    "sock_recvfrom_into",
    "sock_sendall",
    "sock_sendfile",
    "sock_sendto",
    "start_tls",
    "subprocess_exec",
    "subprocess_shell",
)


def without_machine(loop: type[Loop]) -> type[Loop]:
    """Let the methods of a class that need the machine raise :class:`NotImplementedError`."""
    for name in _REFUSED:
        setattr(loop, name, _refusal(name))
    return loop


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> None:
        raise NotImplementedError(
            f"{name}() is not simulated: a simulated world has no sockets, names of hosts, "
            "processes and signals of the machine"
        )

    return refuse
