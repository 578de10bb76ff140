"""The connections of a client, made of its configuration, and its bootstrap servers.

:func:`network_client` makes the client of the brokers, with what :func:`security` has read. Before
its first connection :func:`resolved_bootstrap_servers` waits until a name can be resolved, where
``bootstrap_resolve_timeout_ms`` asks for that (KIP-909). :func:`loads_of_connections` and
:func:`loads_of_logins` are the imports that a client may need after its start.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from aioproducer.config import ProducerConfig
from aioproducer.config.cross_checks import proxy_of, resolved_at_proxy
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.connection import ConnectionSettings
from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.transport import Address, SocketSettings, canonical_names
from aioproducer.errors import BootstrapError, BrokerConnectionError
from aioproducer.foundation.backoff import ExponentialBackoff
from aioproducer.foundation.logs import ModuleLogger, duration
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.runtime.threads import Load
from aioproducer.foundation.version import __version__
from aioproducer.model import BootstrapId, BootstrapServer

if TYPE_CHECKING:
    # a client without TLS and logins imports no part of them
    from aioproducer.auth.mechanism import Mechanism
    from aioproducer.auth.tls import TlsContexts


logger = ModuleLogger(__name__)


def retry_backoff(config: ProducerConfig, random: Random) -> ExponentialBackoff:
    """The delays of ``retry_backoff_ms`` and ``retry_backoff_max_ms``."""
    first, longest = config.retry_backoff_ms, config.retry_backoff_max_ms
    return ExponentialBackoff(first / 1000, longest / 1000, random)


def bootstrap_servers(addresses: Iterable[Address]) -> list[BootstrapServer]:
    """The addresses of the option, each with an id of its own."""
    return [
        BootstrapServer(BootstrapId(f"-{number}"), host, port)
        for number, (host, port) in enumerate(addresses, start=1)
    ]


async def resolved_bootstrap_servers(
    config: ProducerConfig, environment: Environment, backoff: ExponentialBackoff, owner: TaskOwner
) -> list[BootstrapServer]:
    """The bootstrap servers, by their canonical names where ``client_dns_lookup`` asks for them.

    With ``bootstrap_resolve_timeout_ms``, returns once a name can be resolved (KIP-909), or when
    ``owner`` is closed; at once if a proxy resolves names. Raises :class:`BootstrapError` if none
    can be resolved in that time.
    """
    addresses: Iterable[Address] = config.bootstrap_servers
    canonical = config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"
    seconds = config.bootstrap_resolve_timeout_ms / 1000
    if seconds and not resolved_at_proxy(config):
        names = _NameWait(config.bootstrap_servers, seconds, environment, backoff, owner)
        addresses = await names.resolved(canonical=canonical)
    elif canonical:
        addresses = await canonical_names(addresses)
    return bootstrap_servers(addresses)


class _NameWait:
    """Look-ups of all names side by side, each repeated until one of them succeeds.

    Source: ``NetworkClient.ensureBootstrapped``, which looks the names up one after the other.
    """

    def __init__(
        self,
        addresses: tuple[Address, ...],
        seconds: float,
        environment: Environment,
        backoff: ExponentialBackoff,
        owner: TaskOwner,
    ) -> None:
        self._addresses = addresses
        self._seconds = seconds
        self._resolve = environment.resolve
        self._backoff = backoff
        self._owner = owner
        self._reasons: dict[Address, str] = {}
        """The last error of each name that was looked up in vain."""

    async def resolved(self, *, canonical: bool) -> Iterable[Address]:
        """The addresses, ``canonical`` or as they are, once a name can be resolved."""
        try:
            async with PatientTimeout(self._seconds):
                found = await self._first()
                return (
                    await canonical_names(self._addresses)
                    if canonical and found
                    else self._addresses
                )
        except TimeoutError:
            raise self._too_late() from None

    async def _first(self) -> bool:
        """True once a name can be resolved; False if the owner has ended the look-ups."""
        lookups = [
            self._owner.start(self._look_up(each), name="aioproducer-bootstrap")
            for each in self._addresses
        ]
        try:
            done, _ = await asyncio.wait(lookups, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for lookup in lookups:
                self._owner.cancel(lookup)
        return not all(lookup.cancelled() for lookup in done)

    async def _look_up(self, address: Address) -> None:
        failures = 0
        while True:
            try:
                await self._resolve(*address)
                return
            except BrokerConnectionError as error:
                if address not in self._reasons and str(error) not in self._reasons.values():
                    logger.warning(
                        "%s. The start waits for a name that can be, for up to %s "
                        "(bootstrap_resolve_timeout_ms)",
                        error,
                        duration(self._seconds),
                        error=error,
                    )
                self._reasons[address] = str(error)
            failures += 1
            await asyncio.sleep(self._backoff.delay(failures))

    def _too_late(self) -> BootstrapError:
        reasons = dict.fromkeys(
            self._reasons.get(each, f"the name {each[0]!r} is still being looked up")
            for each in self._addresses
        )
        return BootstrapError(
            f"no name in bootstrap_servers could be resolved within {duration(self._seconds)} "
            "(bootstrap_resolve_timeout_ms). Check the names and the name server, or raise the "
            f"timeout; then start a new client. {'; '.join(reasons)}"
        )


class Security(NamedTuple):
    """The security of connections."""

    tls: TlsContexts | None
    mechanism: Mechanism | None
    """Of the login; it has to be closed."""


def loads_of_connections(config: ProducerConfig) -> list[Load]:
    """The imports of all connections that a client of ``config`` may ever open."""
    loads = [_load_look_ups]
    if not all(host.isascii() for host, _ in config.bootstrap_servers):
        loads.append(_load_idna)
    if proxy_of(config) is not None:
        loads.append(_load_proxies)
    if config.security_protocol != "PLAINTEXT":
        loads += (_load_idna, _load_security)  # ssl encodes every host name
    return loads


def loads_of_logins(config: ProducerConfig) -> Sequence[Load]:
    """The imports of libraries for logins, after :func:`loads_of_connections` have run."""
    if not config.security_protocol.startswith("SASL_"):
        return ()
    from aioproducer.config.login import loads_of

    return loads_of(config)


def _load_look_ups() -> None:
    with suppress(RuntimeError):  # the interpreter ends, so asyncio has no executor either
        import concurrent.futures.thread  # noqa: F401  # asyncio's, for an address with a zone


def _load_proxies() -> None:
    import aioproducer.engine.network.proxy_handshake  # noqa: F401


def _load_idna() -> None:
    import encodings.idna  # noqa: F401


def _load_security() -> None:
    import aioproducer.auth.tls_errors
    import aioproducer.config.login
    import aioproducer.engine.network.login  # noqa: F401


def security(config: ProducerConfig, environment: Environment) -> Security:
    """TLS and the login. Without either, nothing that they need is imported."""
    if config.security_protocol == "PLAINTEXT":
        return Security(None, None)
    from aioproducer.config.login import mechanism_of, tls_of

    mechanism = mechanism_of(config, lambda: environment.wall_clock_ns() / 1e9)
    return Security(tls_of(config), mechanism)


def network_client(
    config: ProducerConfig,
    client_id: str,
    environment: Environment,
    random: Random,
    owner: TaskOwner,
    wakeup: Wakeup,
    metrics: ProducerMetrics,
    secured: Security,
) -> NetworkClient:
    """The client of the brokers, by the clock of ``wakeup``, which wakes what works for it."""
    idle = config.connections_max_idle_ms
    return environment.network(
        ClientSettings(
            connection=ConnectionSettings(
                client_id=client_id,
                software_version=__version__,
                request_timeout=config.request_timeout_ms / 1000,
                socket=SocketSettings(
                    config.send_buffer_bytes,
                    config.receive_buffer_bytes,
                    secured.tls,
                    resolve=environment.resolve,
                    process=os.getpid(),
                    reached={},
                    proxy=proxy_of(config),
                ),
                max_idle=float("inf") if idle < 0 else idle / 1000,
                mechanism=secured.mechanism,
            ),
            max_in_flight=config.max_in_flight_requests_per_connection,
            setup_timeout=config.socket_connection_setup_timeout_ms / 1000,
            setup_timeout_max=config.socket_connection_setup_timeout_max_ms / 1000,
            reconnect_backoff=config.reconnect_backoff_ms / 1000,
            reconnect_backoff_max=config.reconnect_backoff_max_ms / 1000,
        ),
        owner,
        wakeup.clock,
        random,
        wakeup.wake,
        metrics,
    )
