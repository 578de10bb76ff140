"""Faults of connections and requests."""

from __future__ import annotations

import errno
import os
from sys import maxsize
from typing import Any

from aioproducer.engine.cluster.metadata import Metadata
from aioproducer.engine.core import engine
from aioproducer.engine.network.connection import Connection
from aioproducer.engine.network.exchange import Exchange
from aioproducer.engine.network.network_client import NetworkClient
from aioproducer.engine.network.timeouts import ConnectionTimeouts
from aioproducer.engine.sender.produce import ProduceSettings
from aioproducer.foundation.runtime import tasks
from tests.simulation.mutations.patch import Mutation, Patch


def in_flight_not_limited(patch: Patch) -> None:
    """A broker gets more requests than max_in_flight_requests_per_connection."""

    def mutant(_can_send: Any) -> Any:
        def may(self: NetworkClient, node: Any, now: float) -> bool:
            state = self._nodes.get(node)
            exchange = None if state is None else state.exchange
            return exchange is not None and exchange.takes(now, maxsize, self._max_idle)

        return may

    patch(NetworkClient, "can_send", mutant)


def silent_broker_waited_for(patch: Patch) -> None:
    """No request times out."""
    patch(NetworkClient, "next_timeout", lambda _: lambda self: None)


def acks_of_the_leader_alone(patch: Patch) -> None:
    """acks=all is sent as acks=1."""

    def mutant(_settings: Any) -> Any:
        return lambda acks, timeout: ProduceSettings(1 if acks == -1 else acks, timeout)

    patch(engine, "ProduceSettings", mutant)


def requests_forgotten_with_their_connection(patch: Patch) -> None:
    """The first request of a lost connection gets no outcome."""

    def mutant(run: Any) -> Any:
        async def ran(self: Connection) -> Any:
            reason = await run(self)
            if self.in_flight:
                self.in_flight.popleft()
            return reason

        return ran

    patch(Connection, "run", mutant)


def idle_connection_used(patch: Patch) -> None:
    """A connection is used however long it was idle."""

    def mutant(can_send: Any) -> Any:
        def may(self: NetworkClient, node: Any, now: float) -> bool:
            state = self._nodes.get(node)
            if state is not None and state.exchange is not None:
                state.exchange.last_used = now + self.clock.lost
            return bool(can_send(self, node, now))

        return may

    patch(NetworkClient, "can_send", mutant)


def missing_descriptor_fatal(patch: Patch) -> None:
    """The producer ends when the process has no file descriptor for a connection."""

    def mutant(run: Any) -> Any:
        async def ran(self: Connection) -> Any:
            reason = await run(self)
            if os.strerror(errno.EMFILE) in str(reason):
                raise RuntimeError("no file descriptor")
            return reason

        return ran

    patch(Connection, "run", mutant)


def requests_written_whole(patch: Patch) -> None:
    """A large request is written in one turn of the loop."""

    def mutant(_write: Any) -> Any:
        def written(self: Exchange, pieces: Any) -> None:
            self.transport.writelines([bytes(each) for each in pieces])

        return written

    patch(Exchange, "_write_in_turns", mutant)


def drip_extends_every_api(patch: Patch) -> None:
    """Each late request whose bytes pass gets more time, also if another broker could answer it."""

    def mutant(_passes: Any) -> Any:
        def passes(self: ConnectionTimeouts, late: Any, now: float) -> Any:
            assert self._exchange is not None
            receives = self._exchange.is_amid_response
            return self.look_at_bytes(late.sent, now, receives=receives)

        return passes

    patch(ConnectionTimeouts, "passes_until", mutant)


def replaced_cluster_refused(patch: Patch) -> None:
    """The cluster that answers at bootstrap_servers is refused if it is not the first one."""
    patch(Metadata, "follows", lambda _: lambda self, node: False)


def tasks_end_with_the_loop(patch: Patch) -> None:
    """A program that cancels all tasks ends the sender and the connections as well."""
    patch(tasks, "new_task", lambda _: tasks.new_visible_task)


MUTATIONS: tuple[Mutation, ...] = (
    drip_extends_every_api,
    replaced_cluster_refused,
    tasks_end_with_the_loop,
    missing_descriptor_fatal,
    requests_written_whole,
    idle_connection_used,
    in_flight_not_limited,
    silent_broker_waited_for,
    acks_of_the_leader_alone,
    requests_forgotten_with_their_connection,
)
