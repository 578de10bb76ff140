"""The credentials of requests to a registry: none, a password, or a bearer token."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from aioproducer.errors import (
    ConfigError,
    ProducerError,
    SchemaRegistryAuthenticationError,
    SchemaRegistryUnavailableError,
)
from aioproducer.foundation.logs import duration
from aioproducer.foundation.runtime.threads import MOST_HANGING, ThreadForEach
from aioproducer.foundation.secret import Secret
from aioproducer.schema_registry.rest.addresses import basic_authorization
from aioproducer.schema_registry.rest.answers import Flights

__all__ = ["BearerToken", "Credentials"]

BearerToken: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A token, or a function that gives one; a plain function is called in a thread."""

_NO_TOKEN: Final = "bearer_token is not a token: it must consist of printable ASCII characters"


class Credentials:
    """Gives requests their ``Authorization`` header; a token of a function is kept until refused.

    Threads may share the object.
    """

    def __init__(
        self,
        username: str | None = None,
        password: Secret | None = None,
        bearer_token: Secret | Callable[[], str | Awaitable[str]] | None = None,
    ) -> None:
        """Raises ConfigError."""
        if (username is None) != (password is None):
            raise ConfigError("username and password belong together")
        if username is not None and bearer_token is not None:
            raise ConfigError("username and bearer_token exclude each other")
        if username is not None and ":" in username:
            raise ConfigError("username: basic authentication does not allow a colon in a name")
        self._give = bearer_token if callable(bearer_token) else None
        self._header: Secret | None = None
        self._flights = Flights()
        self._threads = ThreadForEach("aioproducer-registry-token", most=MOST_HANGING)
        if username is not None and password is not None:
            self._header = basic_authorization(username, password)
        elif isinstance(bearer_token, Secret):
            self._header = _bearer(bearer_token.reveal())
            if self._header is None:
                raise ConfigError(_NO_TOKEN)

    @property
    def given(self) -> bool:
        """There are any."""
        return self._header is not None or self._give is not None

    @property
    def last(self) -> Secret | None:
        """The header of the last request."""
        return self._header

    @property
    def renewable(self) -> bool:
        """Another token can be had when one is refused."""
        return self._give is not None

    async def authorization(self, timeout: float) -> Secret | None:
        """The header's value; of a function that takes longer than ``timeout`` there is none.

        Raises:
            SchemaRegistryAuthenticationError: the function gave no token.
            SchemaRegistryUnavailableError: the function took too long, or can't reach its source.
            ProducerError: an error of the function that is one of ours.
        """
        if self._header is not None or self._give is None:
            return self._header
        give = self._give
        return await self._flights.share("token", lambda: self._fetch(give, timeout))

    async def _fetch(self, give: Callable[[], Any], timeout: float) -> Secret:
        found = await _called(give, timeout, self._threads)
        if isinstance(found, ProducerError):
            raise found
        self._header = found
        return found

    def renew(self, refused: Secret | None) -> None:
        """Forget the header, if it is the one that the registry refused."""
        if self._give is not None and self._header == refused:
            self._header = None


async def _called(
    give: Callable[[], Any], timeout: float, threads: ThreadForEach
) -> Secret | ProducerError:
    """The token as a header, or the error to raise: a traceback from here would show the token."""
    try:
        async with asyncio.timeout(timeout) as bound:
            if inspect.iscoroutinefunction(give):
                token = await give()
            else:  # it may block for long, so the thread is not one of the loop's
                token = await asyncio.get_running_loop().run_in_executor(threads, give)
                if inspect.isawaitable(token):
                    token = await token
    except ProducerError as error:
        return error
    except Exception as error:
        if bound.expired():
            return SchemaRegistryUnavailableError(
                f"bearer_token returned no token within {duration(timeout)}"
            )
        told = f"bearer_token raised {type(error).__name__}"
        failed: ProducerError
        if isinstance(error, OSError | TimeoutError):
            failed = SchemaRegistryUnavailableError(f"{told}: {error}")
        else:
            failed = SchemaRegistryAuthenticationError(f"{told}: {error}")
        failed.__cause__ = error
        return failed
    found = _bearer(token)
    if found is None:
        return SchemaRegistryAuthenticationError(_NO_TOKEN)
    return found


def _bearer(token: object) -> Secret | None:
    if isinstance(token, str) and token and token.isascii() and token.isprintable():
        return None if " " in token else Secret(f"Bearer {token}")
    return None
