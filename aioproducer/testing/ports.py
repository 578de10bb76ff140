"""TCP ports for servers: free ones, and the port of a server that is down for a while."""

from __future__ import annotations

import contextlib
import os
import random
import socket

__all__ = ["PORTS_VARIABLE", "ReservedPort", "free_ports"]

PORTS_VARIABLE = "AIOPRODUCER_PORTS"
"""``20000-23999``: the range for this process and those that it starts. A free port is bound only
when its server has started, so processes side by side take ports from ranges of their own."""

# Below the ephemeral ranges of Linux (32768-60999) and macOS (49152-65535): an outgoing connection
# cannot take the port of a broker that is down for a moment.
_PORTS = range(20000, 32000)
_given: set[int] = set()


def port_range() -> range:
    """The ports that :func:`free_ports` chooses from. Raises ValueError."""
    named = os.environ.get(PORTS_VARIABLE)
    if not named:
        return _PORTS
    first, _, last = named.partition("-")
    if not (first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 65536):
        raise ValueError(f"{PORTS_VARIABLE} is a range such as 20000-23999, not {named!r}")
    return range(int(first), int(last) + 1)


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """`count` different free TCP ports; raises OSError when there are too few.

    Ports that this process was given before come last: their servers may not have started yet.
    """
    ports: list[int] = []
    candidates = port_range()
    shuffled = random.SystemRandom().sample(candidates, len(candidates))
    for port in sorted(shuffled, key=_given.__contains__):
        if len(ports) == count:
            break
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind((host, port))
            ports.append(port)
    if len(ports) < count:
        raise OSError(f"only {len(ports)} of {count} ports are free on {host} in {candidates}")
    _given.update(ports)
    return ports


class ReservedPort:
    """A port that is bound and not listened at, so that connections are refused. The owner releases
    it to listen again: not every system lets it do so before."""

    def __init__(self, host: str, port: int) -> None:
        """Bind the port. Raises OSError if it is in use."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Connections that have ended are no obstacle.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise

    def release(self) -> None:
        """Release the port. Can be called twice."""
        self._socket.close()
