"""One token for all connections: fetched once, kept, and fetched again before it expires.

A source runs no task in the background. A caller near the end of a token's validity starts the
fetch of the next one, and waits for it a moment; then the old token serves on while it lasts. Ended
fetches leave nothing behind, so a source only needs closing to end a fetch in progress.

Producers of one process with equal settings share a source (:func:`shared_source`), also on several
event loops. A fetch runs on the loop of whoever began it; when that loop ends the fetch, another
asker begins the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from random import Random
from types import MethodType
from typing import Final, final

from aioproducer.auth.oauthbearer import RefreshRules, Token, token_from
from aioproducer.auth.providers import Provider, Raised, ask, failure_of
from aioproducer.errors import ProducerError, ProducerTimeoutError, TokenEndpointError, TokenError
from aioproducer.errors.client import anew
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import duration, plain_logger
from aioproducer.foundation.runtime import forks
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.runtime.threads import ThreadForEach

__all__ = ["Token", "TokenSource", "identity_of", "shared_source"]


logger = plain_logger(__name__)

_MOST_THREADS: Final = 4
"""The threads of a provider that hangs; it holds up no other one."""
_RETRY_BACKOFF: Final = (0.1, 10.0)
_FETCH_TIMEOUT: Final = 60.0
_PATIENCE: Final = 2.0
_GRACE: Final = 1.0
_AGAIN: Final = "the producer retries"
_TO_END: Final = 0.1
"""Seconds for a provider to end that was cancelled; one that goes on holds up no producer."""


@final
class _Fetch:
    """One call of the provider, for all who ask while it runs."""

    def __init__(self, started: float, loop: asyncio.AbstractEventLoop) -> None:
        self.started = started
        self.loop = loop
        self.owner = TaskOwner(lambda cause: None)  # askers notice the end of the task
        self.over = False
        self.outcome: Token | ProducerError | None = None
        """None after a fetch that was given up."""
        self._askers: list[asyncio.Future[None]] = []

    async def wait(self, timeout: float) -> None:
        """Wait for the end, in any loop, for ``timeout`` seconds at most."""
        asker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._askers.append(asker)
        if self.over:
            self.end()
        try:
            with suppress(TimeoutError):
                async with PatientTimeout(timeout):
                    await asyncio.wait([asker])
        finally:
            asker.cancel()

    def end(self) -> None:
        """Tell all who wait that it is over."""
        self.over = True
        while self._askers:
            try:
                asker = self._askers.pop()
            except IndexError:  # another loop has told the last one
                return
            with suppress(RuntimeError):  # its loop is closed
                asker.get_loop().call_soon_threadsafe(_resolve, asker)


@final
class TokenSource:
    """The token of one provider; see the module for how it is kept fresh.

    ``provider`` gives a token in one of the forms of
    :func:`~aioproducer.auth.oauthbearer.token_from`.
    ``clock`` gives seconds since the epoch (``time.time``).
    ``timeout``: seconds for one call of the provider.
    ``patience``: seconds that an asker waits for the next token while the old one is valid.
    ``retry_backoff``: the shortest and the longest wait in seconds between failed calls.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        clock: Callable[[], float],
        refresh: RefreshRules | None = None,
        retry_backoff: tuple[float, float] = _RETRY_BACKOFF,
        timeout: float = _FETCH_TIMEOUT,
        patience: float = _PATIENCE,
        random: Random | None = None,
    ) -> None:
        self._provider = provider
        self._threads = ThreadForEach("aioproducer-token", most=_MOST_THREADS)
        self._refresh = refresh or RefreshRules()
        self._random = random or Random()
        self._backoff = ExponentialBackoff(*retry_backoff, self._random)
        self._timeout = timeout
        self._patience = patience
        self._clock = clock
        self._token: Token | None = None
        self._has_worked = False
        """The provider has given a token."""
        self._refresh_at = 0.0
        self._failures = 0
        self._failure: ProducerError | None = None
        self._retry_at = 0.0
        self._fetch: _Fetch | None = None

    async def token(self) -> Token:
        """A token that is valid now. Cancelling one asker ends no other's fetch.

        Raises:
            TokenError: there is no valid token, and none can be had. Final.
            TokenEndpointError: there is none, and none can be had at present.
        """
        while True:
            found = self._at_hand()
            if isinstance(found, Token):
                return found
            if isinstance(found, ProducerError):
                raise anew(found)
            valid = self._valid()
            await self._wait_for(found, self._longest_wait(valid))
            outcome = found.outcome
            if isinstance(outcome, Token):
                return outcome
            if valid is not None and (valid := self._valid()) is not None:
                return valid
            if outcome is not None:
                raise anew(outcome)
            if not found.over:  # its event loop stands still
                self._give_up(found)
                raise self._too_slow()

    def discard(self, token: Token) -> None:
        """Forget ``token``, which a broker refused: the next login gets another one."""
        if self._token is not None and self._token.value == token.value:
            self._token = None

    async def close(self) -> None:
        """End a fetch that runs on this event loop. Its other askers begin another one.

        The source stays usable. A provider that ignores its cancellation is left alone.
        """
        fetch = self._fetch
        if fetch is not None and fetch.loop is asyncio.get_running_loop():
            await fetch.owner.close(_TO_END)
            self._give_up(fetch)  # of a provider that goes on, too

    def _at_hand(self) -> Token | ProducerError | _Fetch:
        """The answer to an asker: a token, an error, or a fetch to wait for."""
        now = self._clock()
        token, failure, under_way = self._token, self._failure, self._fetch
        if token is not None and now < self._refresh_at:
            return token
        if under_way is not None and not under_way.loop.is_closed():
            return under_way
        if failure is not None and now < self._retry_at:
            return self._valid_at(now) or failure
        fetch = _Fetch(now, asyncio.get_running_loop())
        if self._fetch is under_way:
            self._fetch = fetch  # no call between: one loop begins it
        else:
            return self._at_hand()
        task = fetch.owner.start(self._run(fetch), "aioproducer-token")
        task.add_done_callback(lambda task: self._give_up(fetch))
        return fetch

    def _valid(self) -> Token | None:
        return self._valid_at(self._clock())

    def _valid_at(self, now: float) -> Token | None:
        token = self._token
        return None if token is None or now >= _end(token) else token

    def _longest_wait(self, valid: Token | None) -> float:
        """Seconds for an asker that has ``valid``; the fetch itself ends by its timeout before."""
        if valid is not None and valid.expires is not None:
            return self._patience
        return self._timeout + _GRACE

    async def _wait_for(self, fetch: _Fetch, longest: float) -> None:
        """Until ``fetch`` is over, or has run for ``longest`` seconds."""
        await fetch.wait(min(max(fetch.started + longest - self._clock(), 0.0), longest))

    async def _run(self, fetch: _Fetch) -> None:
        """Call the provider, and keep what it gives."""
        outcome: Token | ProducerError
        try:
            async with PatientTimeout(self._timeout) as bound:
                outcome = await self._ask()
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            outcome = self._failure_of(error)
        except Exception as error:
            outcome = self._too_slow() if bound.expired() else self._failure_of(error)
        if self._fetch is fetch:
            outcome = self._keep(outcome)
            self._fetch = None
        fetch.outcome = outcome
        fetch.end()

    async def _ask(self) -> Token | ProducerError:
        answer = await ask(self._provider, self._threads)
        return self._failure_of(answer.error) if isinstance(answer, Raised) else token_from(answer)

    def _failure_of(self, error: BaseException) -> ProducerError:
        """The error that askers get for what a provider raised."""
        if isinstance(error, ProducerTimeoutError):
            return TokenEndpointError(f"the token provider hangs: {error}")
        if isinstance(error, ProducerError):
            error.__context__ = None
            return error.with_traceback(None)  # its frames hold what the provider gave
        return failure_of(
            error,
            "the token provider",
            TokenError,
            TokenEndpointError,
            _AGAIN,
            has_worked=self._has_worked,
        )

    def _too_slow(self) -> ProducerError:
        return TokenEndpointError(
            f"the token provider did not answer within {duration(self._timeout)}; {_AGAIN}"
        )

    def _keep(self, outcome: Token | ProducerError) -> Token | ProducerError:
        """Note the end of the present fetch."""
        now = self._clock()
        if isinstance(outcome, Token) and now >= _end(outcome):
            kind = TokenError if self._token is None else TokenEndpointError
            outcome = kind(
                f"the provider's token expired {duration(now - _end(outcome))} "
                "ago: check the provider, and this machine's clock"
            )
        if isinstance(outcome, Token):
            self._token = outcome
            self._has_worked = True
            self._failures, self._failure = 0, None
            expires = outcome.expires
            self._refresh_at = (
                now if expires is None else self._refresh.refresh_at(now, expires, self._random)
            )
            return outcome
        self._failures += 1
        self._failure = outcome
        self._retry_at = now + self._backoff.delay(self._failures)
        if (valid := self._valid_at(now)) is not None and valid.expires is not None:
            logger.warning(
                "The token was not refreshed; the current one is valid for another %s: %s",
                duration(valid.expires - now),
                outcome,
            )
        return outcome

    def _give_up(self, fetch: _Fetch) -> None:
        """Let others begin a fetch, if ``fetch`` is over or hangs."""
        if self._fetch is fetch:
            self._fetch = None
        fetch.end()


def _end(token: Token) -> float:
    return float("inf") if token.expires is None else token.expires


def _resolve(asker: asyncio.Future[None]) -> None:
    if not asker.done():
        asker.set_result(None)


_MOST: Final = 64
"""The oldest one goes first; whoever holds it uses it on."""

_sources: dict[Hashable, TokenSource] = {}


def shared_source(settings: Hashable, make: Callable[[], TokenSource]) -> TokenSource:
    """The source of this process for ``settings``, made by ``make`` the first time.

    ``settings``: everything that decides which token comes, the provider among it (by its
    :func:`identity_of`). It is kept, so secrets belong in it as
    :class:`~aioproducer.foundation.secret.Secret`. A forked process starts without any source.
    """
    source = _sources.get(settings) or _sources.setdefault(settings, make())
    for oldest in list(_sources)[:-_MOST]:
        _sources.pop(oldest, None)
    return source


def identity_of(provider: Provider) -> Hashable:
    """A key for ``provider`` that equals no other provider's, whatever its ``__eq__`` says.

    A provider need not be hashable. Each look-up of a method makes another object, so methods are
    equal that are the same one of the same object.
    """
    if isinstance(provider, MethodType):
        return _Same(provider.__self__), _Same(provider.__func__)
    return _Same(provider)


@final
class _Same:
    """Equal only for the very same object, which it keeps: no other one gets its address."""

    __slots__ = ("_held",)

    def __init__(self, held: object) -> None:
        self._held = held

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._held is other._held

    def __hash__(self) -> int:
        return id(self._held)


forks.in_child(_sources.clear)
