"""The log lines about connections: what repeats is counted by broker and reason."""

from __future__ import annotations

import logging
from typing import Any, Final

from aioproducer.engine.network.connection import Connection, ConnectionSettings
from aioproducer.engine.network.connection_states import NodeConnectionState, is_final
from aioproducer.engine.network.frames import InFlightRequest
from aioproducer.errors import ProducerError
from aioproducer.foundation import logs
from aioproducer.foundation.logs import counted, duration
from aioproducer.model import BootstrapServer, NodeId, Peer

logger = logs.RoomLogger("aioproducer.network.client")

_LOOK_EVERY: Final = 0.5
"""Seconds. To ask the logger for each request would take longer than to count it."""


class ConnectionLog:
    """Writes the lines of one client."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self._settings = settings
        self._logged_in = False
        self._failing_servers: set[NodeId] = set()
        """The bootstrap servers that have failed since a connection was opened."""
        self.debugs = False
        """True if lines at DEBUG are written, as of the last :meth:`look`."""
        self.look_at = 0.0
        """The clock's time at which :meth:`look` is due: an application may change the level."""

    def look(self, now: float) -> None:
        """See whether the application wants lines at DEBUG."""
        self.debugs, self.look_at = logger.debugs, now + _LOOK_EVERY

    def opened(self, connection: Connection, state: NodeConnectionState, now: float) -> None:
        """``connection`` takes requests; ``state`` is the broker's before that."""
        node = connection.node
        for each in (node.id, *self._failing_servers):  # no other server is tried after one
            self.forgotten(each)
        self._failing_servers.clear()
        if state.setup_error is not None and state.failing_since is not None:
            logger.repeated(
                logging.INFO,
                ("again", node.id),
                "Connected to %s again, after %s in %s",
                node,
                counted(state.failures, "failed attempt"),
                duration(now - state.failing_since),
                **_place(node),
            )
        else:
            logger.debug("Connected to %s", node, **_place(node))
        if self._settings.authenticates and not self._logged_in:
            self._logged_in = True
            mechanism = self._settings.mechanism
            how = [] if self._settings.socket.tls is None else ["TLS"]
            how += [] if mechanism is None else [mechanism.name]
            logger.info("Logged in to %s with %s", node, " and ".join(how), **_place(node))

    def renewed(self, connection: Connection) -> None:
        """The connection has logged in once more."""
        logger.debug("Logged in to %s again", connection.node, **_place(connection.node))

    def ended(self, connection: Connection, reason: ProducerError) -> None:
        """The connection was lost, or was never established."""
        node, lost = connection.node, len(connection.in_flight)
        if is_final(reason) or not connection.phase.was_ready:
            if isinstance(node, BootstrapServer):
                self._failing_servers.add(node.id)
            logger.repeated(
                logging.WARNING,
                ("failed", node.id),
                "Connection to %s failed: %s",
                node,
                _without_name(reason, node),
                error=reason,
                **_place(node),
            )
            return
        logger.repeated(
            logging.INFO if lost else logging.DEBUG,
            ("ended", node.id),
            "Connection to %s ended with %s in flight: %s",
            node,
            counted(lost, "request"),
            _without_name(reason, node),
            error=reason,
            **_place(node),
        )

    def forgotten(self, node: NodeId) -> None:
        """Failures of ``node`` are over: it is connected, or is not tried any more."""
        logger.over(logging.WARNING, ("failed", node))

    def throttled(self, connection: Connection, pause: float) -> None:
        """The broker asks for a pause of so many seconds."""
        logger.repeated(
            logging.WARNING,
            ("throttled", connection.node.id),
            "%s throttles this client for %s, because of a quota",
            connection.node,
            duration(pause),
            throttle_ms=round(pause * 1000),
            **_place(connection.node),
        )

    def anomaly(self, connection: Connection, what: str) -> None:
        """A response has a harmless anomaly, for the first time."""
        logger.debug("%s: %s; they are ignored", connection.node, what, **_place(connection.node))

    def sent(self, connection: Connection, request: object, size: int) -> None:
        """A request of ``size`` bytes was written."""
        kind = type(request).__name__
        logger.debug("%s to %s: %d bytes", kind, connection.node, size, **_place(connection.node))

    def answered(self, connection: Connection, request: InFlightRequest) -> None:
        """A response has come."""
        logger.debug(
            "%s answered by %s after %.1f ms",
            request.form.label,
            connection.node,
            request.latency * 1000,
            **_place(connection.node),
        )


def _without_name(reason: ProducerError, node: Peer) -> str:
    return str(reason).removeprefix(f"{node}: ").removeprefix(f"{node} ")


def _place(node: Peer) -> dict[str, Any]:
    return {"node": node.id, "address": node.address}
