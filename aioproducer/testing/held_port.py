"""The port of a server that does not listen for a while: nobody else gets it meanwhile."""

from __future__ import annotations

import socket


class HeldPort:
    """A port that is bound and not listened at, so that connections are refused. The owner releases
    it to listen again: not every system lets it do so before."""

    def __init__(self, host: str, port: int) -> None:
        """Bind the port. Raises OSError: somebody has it already."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            # Connections that have ended are no obstacle.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((host, port))
        except OSError:
            self._socket.close()
            raise

    def release(self) -> None:
        """Let others have the port. Can be called twice."""
        self._socket.close()
