"""A cloud's metadata server, which only the cloud's own machines reach: it needs no secret.

It blocks: :class:`~aioproducer.auth.tokens.TokenSource` calls it in a thread.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aioproducer.auth.http_exchange import (
    FINAL_STATUSES,
    REDIRECTS,
    SUCCESS,
    Answer,
    HttpRequest,
    Limits,
    Trouble,
    split_url,
    without_query,
)
from aioproducer.auth.token import Token
from aioproducer.auth.token_answer import reason_in, token_in
from aioproducer.config.secret import Secret
from aioproducer.errors import TokenEndpointError, TokenError

__all__ = ["MetadataServer"]

_SCHEMES: Final = ("http", "https")


@dataclass(frozen=True)
class MetadataServer:
    """GETs to one address. No proxy of the environment is used, as it would get the token.

    An ``http://`` address needs no warning: its packets do not leave the cloud's host.
    """

    name: str
    """For messages: ``Azure's instance metadata service``."""
    url: str = field(repr=False)
    headers: Mapping[str, Secret]
    refused: str
    """What to do if it gives no token."""
    unreachable: str
    """What to check if nothing answers."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    limits: Limits
    passing: frozenset[int] = frozenset()
    """Statuses that pass, beside those that always do."""

    @property
    def shown(self) -> str:
        """Name and address for messages, without a query."""
        return f"{self.name} at {without_query(self.url) or '?'}"

    def token(self) -> Token:
        """The token in its answer. Raises as :meth:`get`."""
        found = token_in(self.get().body, self.clock)
        if isinstance(found, str):
            raise TokenError(f"{self.shown} {found}; {self.refused}")
        return found

    def get(self) -> Answer:
        """Its answer, which has a status of success.

        Raises:
            TokenError: it refuses, or the address is none. Final.
            TokenEndpointError: it can't be reached, or fails at present.
        """
        parts = split_url(self.url)
        if parts is None or parts.scheme not in _SCHEMES or not parts.hostname:
            raise TokenError(f"{self.name} has no address that begins with http://")
        context = ssl.create_default_context() if parts.scheme == "https" else None
        request = HttpRequest(self.url, self.headers, through_proxy=False)
        answer = request.answer(self.limits, context)
        if isinstance(answer, Trouble):
            if answer.final:
                raise TokenError(f"{self.shown} {answer.reason}")
            raise TokenEndpointError(f"{self.shown} {answer.reason}; {self.unreachable}")
        if answer.status not in SUCCESS:
            raise self._refusal(answer)
        return answer

    def _refusal(self, answer: Answer) -> TokenError | TokenEndpointError:
        told = f"{self.shown} answered with status {answer.status}"
        if reason := reason_in(answer.body, *self.headers.values()):
            told = f"{told}: {reason}"
        final = answer.status in FINAL_STATUSES or answer.status in REDIRECTS
        if final and answer.status not in self.passing:
            return TokenError(f"{told}; {self.refused}")
        return TokenEndpointError(f"{told}; the producer retries")
