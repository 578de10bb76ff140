"""User names and passwords that the application's own code provides, asked for at each login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.auth.provider import Provider, Raised, ask, is_final, told
from aioproducer.config.secret import Secret
from aioproducer.errors import AuthenticationError, NetworkError, ProducerError, anew
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.threads import MOST_HANGING, ThreadForEach
from aioproducer.foundation.wording import duration

__all__ = ["ProvidedCredentials"]

logger = plain_logger(__name__)

_FORM: Final = "it must return a pair of str, (user name, password)"


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
        what = f"sasl_credentials_provider failed with {told(error)}"
        failure: ProducerError
        if is_final(error, has_worked=self._mechanism is not None):
            failure = AuthenticationError(what)
        else:
            failure = NetworkError(f"{what}; it is asked again for the next login")
        failure.__cause__ = error
        return failure

    def _too_slow(self) -> NetworkError:
        return NetworkError(
            f"sasl_credentials_provider did not answer within {duration(self._timeout)}"
            " (sasl_login_read_timeout_ms); it is asked again for the next login"
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
