"""The connections of a client, made of its configuration."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from aioproducer.config import ProducerConfig
from aioproducer.config.cross_checks import proxy_of
from aioproducer.engine.client.environment import Environment
from aioproducer.engine.client.wakeup import Wakeup
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.client import NetworkClient
from aioproducer.engine.network.connection import ConnectionSettings
from aioproducer.engine.network.connection_states import ClientSettings
from aioproducer.engine.network.transport import SocketSettings
from aioproducer.foundation.runtime.tasks import TaskOwner
from aioproducer.foundation.runtime.threads import Load
from aioproducer.foundation.version import __version__

if TYPE_CHECKING:  # a client without TLS and logins imports no part of them
    from aioproducer.auth.mechanism import Mechanism
    from aioproducer.auth.tls import TlsContexts


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
        loads.append(_load_tunnel)
    if config.security_protocol != "PLAINTEXT":
        loads += (_load_idna, _load_security)  # ssl encodes every host name
    return loads


def loads_of_logins(config: ProducerConfig) -> Sequence[Load]:
    """The imports of libraries for logins, after :func:`loads_of_connections` have run."""
    if not config.security_protocol.startswith("SASL_"):
        return ()
    from aioproducer.auth.configured import loads_of

    return loads_of(config)


def _load_look_ups() -> None:
    with suppress(RuntimeError):  # the interpreter ends, so asyncio has no executor either
        import concurrent.futures.thread  # noqa: F401  # asyncio's, for an address with a zone


def _load_tunnel() -> None:
    import aioproducer.engine.network.tunnel  # noqa: F401


def _load_idna() -> None:
    import encodings.idna  # noqa: F401


def _load_security() -> None:
    import aioproducer.auth.configured
    import aioproducer.auth.tls_errors
    import aioproducer.engine.network.login  # noqa: F401


def security(config: ProducerConfig, environment: Environment) -> Security:
    """TLS and the login. Without either, nothing that they need is imported."""
    if config.security_protocol == "PLAINTEXT":
        return Security(None, None)
    from aioproducer.auth.configured import mechanism_of, tls_of

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
                mechanism=secured.mechanism,
            ),
            max_in_flight=config.max_in_flight_requests_per_connection,
            request_timeout=config.request_timeout_ms / 1000,
            setup_timeout=config.socket_connection_setup_timeout_ms / 1000,
            setup_timeout_max=config.socket_connection_setup_timeout_max_ms / 1000,
            reconnect_backoff=config.reconnect_backoff_ms / 1000,
            reconnect_backoff_max=config.reconnect_backoff_max_ms / 1000,
            max_idle=float("inf") if idle < 0 else idle / 1000,
        ),
        owner,
        wakeup.clock,
        random,
        wakeup.wake,
        metrics,
    )
