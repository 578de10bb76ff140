"""Credentials that can change: the application's own providers, and placeholders.

:func:`ask` calls a provider of tokens or credentials, and :func:`failure_of` judges its errors.
:class:`ProvidedCredentials` asks a provider for user name and password at each login, which
:func:`provided_login` reads from ``sasl_credentials_provider``.
:class:`RereadMechanism` reads the placeholders of the configuration again for each login.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar, final

from aioproducer.auth.jaas import LoginSources
from aioproducer.auth.mechanism import Exchange, Login, Mechanism, Options
from aioproducer.auth.passwords import password_login_with
from aioproducer.errors import AuthenticationError, ConfigError, NetworkError, ProducerError
from aioproducer.errors.client import anew
from aioproducer.foundation.logs import duration, plain_logger
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.threads import MOST_HANGING, ThreadForEach
from aioproducer.foundation.secret import Secret

__all__ = [
    "Provider",
    "Raised",
    "ask",
    "failure_of",
    "imported",
    "limit",
    "ProvidedCredentials",
    "ProvidedLogin",
    "RereadMechanism",
    "provided_login",
]


Provider: TypeAlias = Callable[[], Any]
"""Gives what it provides, or an awaitable of it. One that is no ``async def`` runs in a thread."""

_WRONG_PROGRAM: Final = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    NameError,
    NotImplementedError,
    TypeError,
)
"""A provider that raises one of these is not mended by asking it again."""
_WRONG_ANSWER: Final = (LookupError, ValueError)
"""These are final until the provider has worked. A provider that has worked once has met an
answer that it did not expect (an outage's page instead of JSON, say), and is asked again."""


@final
class Raised:
    """An exception as a value: a future can't carry StopIteration, and asyncio ends at some."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def ask(provider: Provider, threads: ThreadForEach) -> object:
    """The answer of ``provider``, or what it has :class:`Raised` in a thread of ``threads``."""
    if _is_async(provider):
        return await provider()
    answer = await asyncio.get_running_loop().run_in_executor(threads, _guarded, provider)
    return await answer if isinstance(answer, Awaitable) else answer


def failure_of(
    error: BaseException,
    provider: str,
    refusal: type[ProducerError],
    outage: type[ProducerError],
    again: str,
    *,
    has_worked: bool,
) -> ProducerError:
    """The error of a login whose ``provider`` raised ``error``: a ``refusal`` or an ``outage``.

    A refusal counts as a refused login, and an outage as a broker that was not reached (see
    :class:`~aioproducer.engine.network.connection_states.RefusedLogins`). ``again`` says in an
    outage's message when the provider is called next. ``has_worked``: it has given an answer.
    """
    told = f": {error}" if str(error) else ""
    what = f"{provider} failed with {type(error).__name__}{told}"
    wrong = _WRONG_PROGRAM if has_worked else (*_WRONG_PROGRAM, *_WRONG_ANSWER)
    is_wrong = isinstance(error, wrong) and not isinstance(error, OSError)
    failure = refusal(what) if is_wrong else outage(f"{what}; {again}")
    failure.__cause__ = error
    return failure


def _guarded(provider: Provider) -> object:
    try:
        return provider()
    except BaseException as error:
        return Raised(error)


def _is_async(provider: Provider) -> bool:
    call = getattr(provider, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(provider) or inspect.iscoroutinefunction(call)


logger = plain_logger(__name__)

_LIMIT: Final = 10.0
"""Seconds, as in Kafka, whose defaults of ``sasl.login.*.timeout.ms`` are null."""


def limit(milliseconds: int | None) -> float:
    """Seconds of ``sasl.login.*.timeout.ms``."""
    return _LIMIT if milliseconds is None else milliseconds / 1000


def imported(option: str, provider: Provider | str) -> Provider:
    """The provider, which may be the import path ``package.module:function`` of one.

    Raises:
        ConfigError: it can't be imported, or is not callable.
    """
    if not isinstance(provider, str):
        return provider
    module, _, name = provider.partition(":")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{option}={provider!r} can't be imported: {error}") from error
    if not callable(found):
        raise ConfigError(f"{option}={provider!r} is not callable")
    return found  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class ProvidedLogin(Login):
    """``PLAIN`` or ``SCRAM-…`` with the credentials that the user's own code provides."""

    mechanism: str
    provider: Provider | str
    token_auth: bool = False

    def make(self, options: Options, clock: Callable[[], float]) -> ProvidedCredentials:
        """See :meth:`aioproducer.auth.mechanism.Login.make`."""

        def made(username: str, password: Secret) -> Mechanism:
            login = password_login_with(self.mechanism, username, password, self.token_auth)
            return login.make(options, clock)

        return ProvidedCredentials(
            self.mechanism,
            imported("sasl_credentials_provider", self.provider),
            made,
            timeout=limit(options.sasl_login_read_timeout_ms),
        )


def provided_login(
    mechanism: str, provider: Provider | str, sources: LoginSources
) -> ProvidedLogin:
    """The login by ``sasl_credentials_provider``. Raises ConfigError beside other credentials."""
    for keyword, jaas_name in (("sasl_username", "username"), ("sasl_password", "password")):
        if sources.secret(keyword, jaas_name) is not None:
            raise ConfigError(
                f"sasl_credentials_provider and {keyword} (or {jaas_name} in sasl_jaas_config) "
                "are two sources of credentials: set only one"
            )
    return ProvidedLogin(mechanism, provider, sources.flag("tokenauth"))


_FORM: Final = "it must return a pair of str, (user name, password)"
_AGAIN: Final = "it is called again for the next login"


@final
class ProvidedCredentials(Mechanism):
    """A mechanism with the credentials of ``provider``, made by ``make`` when they have changed.

    Connections that log in at the same time share an answer. A provider that fails leaves the last
    credentials in use, with one warning.

    ``timeout``: seconds for one call of the provider.
    """

    def __init__(
        self,
        name: str,
        provider: Provider,
        make: Callable[[str, Secret], Mechanism],
        *,
        timeout: float,
    ) -> None:
        self.name = name
        self._provider = provider
        self._make = make
        self._timeout = timeout
        self._credentials: tuple[str, Secret] | None = None
        self._mechanism: Mechanism | None = None
        self._failure: ProducerError | None = None
        self._complaint = ""
        self._asking = asyncio.Lock()
        self._threads = ThreadForEach("aioproducer-credentials", most=MOST_HANGING)
        self._calls = 0
        """The calls of the provider that have begun."""

    async def current(self) -> Mechanism:
        """See :meth:`aioproducer.auth.mechanism.Mechanism.current`.

        Raises:
            AuthenticationError: the provider has failed for good, or gave no credentials.
            NetworkError: it has failed, or did not answer in time, and has given none before.
        """
        begun = self._calls
        async with self._asking:
            if self._calls == begun:  # else an answer came that is young enough
                self._calls += 1
                await self._renew()
        if self._mechanism is None:
            assert self._failure is not None
            raise anew(self._failure)
        return self._mechanism

    async def begin(self, host: str) -> Exchange:
        """Start a login with the credentials as they are now."""
        return await (await self.current()).begin(host)

    async def _renew(self) -> None:
        try:
            async with PatientTimeout(self._timeout) as bound:
                self._take(await ask(self._provider, self._threads))
            self._failure, self._complaint = None, ""
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            self._fail(self._failure_of(error))
        except ProducerError as error:
            self._fail(error.with_traceback(None))  # its frames hold the answer
        except Exception as error:
            self._fail(self._too_slow() if bound.expired() else self._failure_of(error))

    def _take(self, answer: object) -> None:
        if isinstance(answer, Raised):
            raise self._failure_of(answer.error)
        credentials = _credentials(answer)
        if credentials != self._credentials:
            self._mechanism = self._make(*credentials)
            self._credentials = credentials

    def _fail(self, failure: ProducerError) -> None:
        self._failure = failure
        if self._mechanism is not None and str(failure) != self._complaint:
            self._complaint = str(failure)
            logger.warning("The last credentials stay in use: %s", failure)

    def _failure_of(self, error: BaseException) -> ProducerError:
        return failure_of(
            error,
            "sasl_credentials_provider",
            AuthenticationError,
            NetworkError,
            _AGAIN,
            has_worked=self._mechanism is not None,
        )

    def _too_slow(self) -> NetworkError:
        return NetworkError(
            f"sasl_credentials_provider did not answer within {duration(self._timeout)}"
            f" (sasl_login_read_timeout_ms); {_AGAIN}"
        )


def _credentials(answer: object) -> tuple[str, Secret]:
    """The pair in a provider's answer; no error shows a piece of it."""
    if not isinstance(answer, tuple | list):
        raise AuthenticationError(
            f"sasl_credentials_provider returned {type(answer).__name__}; {_FORM}"
        )
    match answer:
        case [str() | Secret() as username, str() | Secret() as password]:
            return (
                username if isinstance(username, str) else username.reveal(),
                Secret(password) if isinstance(password, str) else password,
            )
    kinds = ", ".join(type(each).__name__ for each in answer)
    raise AuthenticationError(f"sasl_credentials_provider returned ({kinds}); {_FORM}")


class _Rereadable(Protocol):
    def reread(self) -> Self: ...


_Config = TypeVar("_Config", bound=_Rereadable)

_THREADS: Final = ThreadForEach("aioproducer-placeholders")
"""Not the event loop: a file may be on a network drive that hangs."""


@final
class RereadMechanism(Mechanism, Generic[_Config]):
    """The mechanism that ``make`` makes of a configuration, made again when a placeholder's value
    has changed.

    Credentials that can't be read or used, as their file is half written perhaps, leave the old
    ones in use, with one warning.
    """

    def __init__(
        self, config: _Config, mechanism: Mechanism, make: Callable[[_Config], Mechanism | None]
    ) -> None:
        """``mechanism``: the one of ``config``."""
        self._config = config
        self._make = make
        self._mechanism = self._previous = mechanism
        self._complaint = ""
        self.name = mechanism.name

    async def current(self) -> Mechanism:
        """See :meth:`aioproducer.auth.mechanism.Mechanism.current`; a file that hangs is none."""
        loop, known = asyncio.get_running_loop(), self._config
        try:
            async with PatientTimeout(_LIMIT):
                config = await loop.run_in_executor(_THREADS, known.reread)
            if config is not known and config != self._config:  # another login may have taken it
                self._take(config)
            self._complaint = ""
        except (ConfigError, TimeoutError) as error:
            self._complain(str(error) or f"they were not read within {duration(_LIMIT)}")
        return await self._mechanism.current()

    def _take(self, config: _Config) -> None:
        made = self._make(config) or self._mechanism
        self._previous, self._mechanism = self._mechanism, made
        self._config, self.name = config, made.name
        logger.info("New logins use the new values of the placeholders in the configuration")

    def _complain(self, what: str) -> None:
        if what != self._complaint:
            self._complaint = what
            logger.warning(
                "The credentials can't be read again, so the old ones stay in use: %s", what
            )

    async def begin(self, host: str) -> Exchange:
        """Start a login with the credentials as they are now."""
        return await (await self.current()).begin(host)

    async def close(self) -> None:
        """End what the mechanism in use, and the one before it, run on this event loop."""
        for mechanism in (self._previous, self._mechanism):
            await mechanism.close()
