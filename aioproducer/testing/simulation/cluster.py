"""The brokers of a simulated world: the model of Kafka behind a network in memory."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from aioproducer.testing.simulation.agenda import Agenda, Event
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel, StoredRecord
from aioproducer.testing.simulation.network import Accepting, Connection, SimulatedNetwork

PORT: Final = 9092
EPOCH: Final = 1_750_000_000.0
"""The time of Unix at the zero of the virtual clock, in seconds."""
LEAST_PAUSE: Final = 1e-6
"""Seconds by which the model's time moves on at least: sums of large numbers are rounded."""


class SimulatedCluster:
    """The brokers 1 to ``brokers``, and what can go wrong with them.

    Everything happens at the present moment of the virtual clock.
    """

    def __init__(
        self,
        brokers: int,
        network: SimulatedNetwork,
        agenda: Agenda,
        random: Random,
        options: ClusterOptions | None = None,
    ) -> None:
        self._agenda = agenda
        self._network = network
        self._next: Event | None = None
        self.brokers: Sequence[int] = range(1, brokers + 1)
        """The ids of the brokers."""
        self.model = KafkaModel(brokers, random=random, options=options or ClusterOptions())
        """The brokers' state."""
        self.model.host = self.address
        for broker in self.brokers:
            network.accept(self.address(broker), self._accepting(broker))

    @property
    def now(self) -> float:
        """The time of Unix, in seconds."""
        return EPOCH + self._agenda.now

    def address(self, broker: int) -> tuple[str, int]:
        """The host and port of a broker."""
        return f"broker-{broker}.simulated", PORT

    @property
    def bootstrap_servers(self) -> str:
        """The option for clients."""
        return ",".join(f"{host}:{port}" for host, port in map(self.address, self.brokers))

    # --- connections -----------------------------------------------------------------------

    def _accepting(self, broker: int) -> Accepting:
        return lambda connection: _BrokerEnd(self, broker, connection)

    def connections(self, broker: int) -> Iterator[Connection]:
        """The open connections to a broker."""
        address = self.address(broker)
        return (each for each in list(self._network.connections) if each.address == address)

    def moved_on(self) -> None:
        """Let the model do what is due, and wake it when there is more to do."""
        moment = self.model.tick(self.now)
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if moment is not None:
            pause = max(moment - self.now, LEAST_PAUSE)
            self._next = self._agenda.call_later(pause, self._due)

    def _due(self) -> None:
        self._next = None
        self.moved_on()

    # --- topics ----------------------------------------------------------------------------

    def create_topic(
        self, name: str, partitions: int = 1, replicas: int | None = None, **config: Any
    ) -> None:
        """Create a topic. ``replicas`` None: on each broker, three at most."""
        wanted = min(len(self.brokers), 3) if replicas is None else replicas
        self.model.create_topic(name, partitions, wanted, **config)
        self.moved_on()

    def log(self, topic: str, partition: int) -> Sequence[StoredRecord]:
        """The records of a partition, with those of aborted and open transactions."""
        return self.model.log(topic, partition)

    # --- faults ----------------------------------------------------------------------------

    def crash(self, broker: int, *, lose_unreplicated: bool = False) -> None:
        """Stop a broker. ``lose_unreplicated``: records that no other broker has are gone."""
        self.model.crash(broker, self.now, lose_unreplicated=lose_unreplicated)
        for connection in self.connections(broker):
            connection.cut()
        self.moved_on()

    def restart(self, broker: int) -> None:
        """Start a broker that has crashed."""
        self.model.restart(broker, self.now)
        self.moved_on()

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make another broker the leader of a partition."""
        self.model.move_leader(topic, partition, to, self.now)
        self.moved_on()

    def cut(self, broker: int) -> None:
        """Reset all connections to a broker."""
        for connection in self.connections(broker):
            connection.cut()


class _BrokerEnd:
    """A broker's end of a connection."""

    def __init__(self, cluster: SimulatedCluster, broker: int, connection: Connection) -> None:
        self._cluster = cluster
        self._responses = connection.responses
        self._model = cluster.model.connect(
            broker, connection.responses.put, self._close, cluster.now
        )

    def arrived(self, data: bytes) -> None:
        """Bytes of requests."""
        self._model.receive(data, self._cluster.now)
        self._cluster.moved_on()

    def ended(self, error: OSError | None) -> None:
        """The client has ended the connection, or the network has."""
        self._model.lost(self._cluster.now)
        self._responses.close(error)
        self._cluster.moved_on()

    def _close(self) -> None:
        self._responses.close(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
