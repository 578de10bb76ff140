"""The port of a server that does not listen for a while: nobody else gets it meanwhile."""

from __future__ import annotations

import socket


class HeldPort:
    """Bound and not listened at, so that connections are refused and the owner can listen again."""

    def __init__(self, host: str, port: int) -> None:
        """Raises OSError: somebody has it already."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Whoever listens with this option, too, can do so while the port is held.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise

    def release(self) -> None:
        """Let others have it. Can be called twice."""
        self._socket.close()
