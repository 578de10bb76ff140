"""The end of a connection in words: what its error means, and at which step it came."""

from __future__ import annotations

import ssl
from asyncio import IncompleteReadError
from typing import TYPE_CHECKING, Final

from aioproducer.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ProducerError,
    ProtocolError,
    RebootstrapRequiredError,
    UsageError,
    anew,
)
from aioproducer.model import Peer

if TYPE_CHECKING:
    from aioproducer.auth.mechanism import Mechanism
    from aioproducer.auth.tls import TlsContexts


_OR_A_PROXY: Final = (
    "Else look at what is in between: a load balancer without a broker, a limit of connections, "
    "or a proxy that knows none of the ApiVersions versions 4, 3 and 0"
)


def is_hang_up(error: Exception) -> bool:
    """True if the peer ended the connection, between two responses."""
    if isinstance(error, IncompleteReadError):
        return not error.partial
    return isinstance(error, ConnectionError) and not isinstance(error, ProducerError)


def explain_end(
    error: Exception,
    node: Peer,
    tls: TlsContexts | None,
    mechanism: Mechanism | None,
    *,
    greeted: bool,
    ready: bool,
) -> ProducerError:
    """The error for ``error``, which has ended a connection to ``node``.

    ``greeted``: the broker has sent its API versions. ``ready``: the connection was set up.
    """
    if isinstance(error, ssl.SSLError) and tls is not None:
        from aioproducer.auth.tls_errors import explain_tls

        return explain_tls(error, node, host=node.host, options=tls.options, secured=not greeted)
    if isinstance(error, AuthenticationError | UsageError | RebootstrapRequiredError):
        explained = anew(error)
        explained.args = (f"{node}: {error}",)
        return explained
    if isinstance(error, ProtocolError):
        return ProtocolError(f"{node}: {error}")
    if is_hang_up(error) and not ready:
        when = f" before it {_awaited(tls, mechanism if greeted else None)}"
        return BrokerConnectionError(f"{node} closed the connection{when}")
    if isinstance(error, IncompleteReadError):
        when = ""
        if error.partial:
            when = f" inside a response ({len(error.partial)} bytes of it had come)"
        return BrokerConnectionError(f"{node} closed the connection{when}")
    return BrokerConnectionError(f"{node}: {error}")


def _awaited(tls: TlsContexts | None, mechanism: Mechanism | None) -> str:
    """The next step of the broker during the set-up."""
    if mechanism is not None:
        return f"accepted the {mechanism.name} login"
    if tls is not None:
        return f"sent its API versions; is it Kafka's TLS port? {_OR_A_PROXY}"
    return (
        "sent its API versions. If the port speaks TLS, set security_protocol to 'SSL' or "
        f"'SASL_SSL'. {_OR_A_PROXY}"
    )
