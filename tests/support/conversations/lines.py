"""The two ends that a conversation can be held with: real brokers, and the model of them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Mapping
from random import Random
from typing import Protocol

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel, ModelConnection

NOW = 1_750_000_000.0
PATIENCE = 30.0


class Line(Protocol):
    """Connections to the brokers of one cluster: one for each broker and each party."""

    brokers: tuple[int, ...]

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """A topic with all brokers as replicas."""

    def send(self, broker: int, frame: bytes, party: str = "") -> None:
        """Send a request."""

    def response(self, broker: int, party: str = "") -> bytes | None:
        """The next response without its size; None: the broker has ended the connection."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def close(self) -> None:
        """End all connections."""


class _Connection:
    """A connection to a broker of the model."""

    def __init__(self, model: KafkaModel, broker: int, now: float) -> None:
        self.responses: deque[bytes] = deque()
        self.closed = False
        self.end: ModelConnection = model.connect(broker, self.responses.append, self._close, now)

    def _close(self) -> None:
        self.closed = True


class ModelLine:
    """The model, whose time passes when a response is waited for."""

    def __init__(self, model: KafkaModel) -> None:
        self.model = model
        self.brokers = model.cluster.brokers
        self.now = NOW
        self._connections: dict[tuple[int, str], _Connection] = {}

    @classmethod
    def of(cls, brokers: int, options: ClusterOptions, seed: int = 0) -> ModelLine:
        """A new cluster."""
        return cls(KafkaModel(brokers, random=Random(seed), options=options))

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        settings = {key.replace(".", "_"): value for key, value in config.items()}
        self.model.create_topic(name, partitions, len(self.brokers), **settings)

    def send(self, broker: int, frame: bytes, party: str = "") -> None:
        place = broker, party
        if place not in self._connections:
            self._connections[place] = _Connection(self.model, broker, self.now)
        self._connections[place].end.receive(frame, self.now)

    def response(self, broker: int, party: str = "") -> bytes | None:
        connection = self._connections[broker, party]
        while not connection.responses and not connection.closed:
            coming = self.model.tick(self.now)
            if not connection.responses and not connection.closed:
                assert coming is not None, "no response will ever come"
                self.now = max(self.now, coming)
        if connection.responses:
            return connection.responses.popleft()[4:]
        del self._connections[broker, party]
        return None

    def hang_up(self) -> None:
        """Forget the connections that brokers have ended."""
        for place in [each for each, end in self._connections.items() if end.closed]:
            del self._connections[place]

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (coming := self.model.tick(self.now)) is not None and coming <= end:
            self.now = coming
        self.now = end
        self.model.tick(end)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.end.lost(self.now)
        self._connections.clear()


class KafkaLine:
    """Real brokers, by blocking sockets."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.kafka = kafka
        self.brokers = tuple(broker.node_id for broker in kafka.brokers)
        self._sockets: dict[tuple[int, str], socket.socket] = {}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        asyncio.run(self.kafka.create_topic(name, partitions, len(self.brokers), config=config))

    def send(self, broker: int, frame: bytes, party: str = "") -> None:
        place = broker, party
        if place not in self._sockets:
            at = self.kafka.brokers[broker - 1]
            self._sockets[place] = socket.create_connection((at.host, at.advertised_port), PATIENCE)
        self._sockets[place].sendall(frame)

    def response(self, broker: int, party: str = "") -> bytes | None:
        connection = self._sockets[broker, party]
        size = self._read(connection, 4)
        if size is None:
            self._sockets.pop((broker, party)).close()
            return None
        return self._read(connection, int.from_bytes(size, "big"))

    def _read(self, connection: socket.socket, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                piece = connection.recv(size - len(data))
            except ConnectionError:
                return None
            if not piece:
                return None
            data += piece
        return bytes(data)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()
