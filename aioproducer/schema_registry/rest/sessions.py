"""HTTP connections to a registry: those of one event loop, while requests are in flight.

Requests come in bursts: when records of new topics are sent. The last one to end closes the
connections, so that none outlives its event loop, and none is used that the registry has closed.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from aioproducer.errors import MissingExtraError
from aioproducer.foundation.runtime.threads import ThreadForEach

if TYPE_CHECKING:
    import httpx2

__all__ = ["Session", "Sessions", "imported_httpx2"]

_CONNECTIONS: Final = 20


class Sessions:
    """Gives requests the session of their event loop. Threads may share the object."""

    def __init__(self, tls: Callable[[], ssl.SSLContext] | None, proxy: str | None = None) -> None:
        """``tls`` gives the context of new connections, and may read files; None: without TLS."""
        self._tls = tls
        self._proxy = proxy
        self._sessions: dict[asyncio.AbstractEventLoop, Session] = {}

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """The session of this event loop.

        Raises:
            ConfigError: a file of the TLS options can't be used.
        """
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            context = None
            if self._tls is not None:
                threads = ThreadForEach("aioproducer-registry-tls")
                context = await loop.run_in_executor(threads, self._tls)
            self._forget_ended_loops()
            if loop not in self._sessions:
                self._sessions[loop] = Session(context, self._proxy)
        session = self._sessions[loop]
        session.users += 1
        try:
            yield session
        finally:
            session.users -= 1
            if not session.users:
                del self._sessions[loop]
                await session.client.aclose()

    def _forget_ended_loops(self) -> None:
        for loop in [each for each in list(self._sessions) if each.is_closed()]:
            self._sessions.pop(loop, None)


class Session:
    """One client, and the number of requests that use it."""

    def __init__(self, context: ssl.SSLContext | None, proxy: str | None) -> None:
        module = imported_httpx2()
        self.users = 0
        self.slots = asyncio.Semaphore(_CONNECTIONS)
        """A request waits here for a connection: the time for a response begins afterwards."""
        self.client: httpx2.AsyncClient = module.AsyncClient(
            # Without an address that needs TLS no certificate is trusted, and none is loaded.
            verify=context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            proxy=proxy,
            timeout=None,  # each request has its own
            follow_redirects=False,  # credentials stay with the host that they are meant for
            limits=module.Limits(
                max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS
            ),
        )


def imported_httpx2() -> Any:
    """The module. Raises MissingExtraError."""
    try:
        import httpx2
    except ImportError as error:
        raise MissingExtraError(
            "the schema registry's client needs httpx2: pip install 'aioproducer[schema-registry]'"
        ) from error
    return httpx2
