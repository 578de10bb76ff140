"""The two ends that a conversation can be held with: real brokers, and the model of them."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from random import Random
from typing import Protocol

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.simulation.kafka import ClusterOptions, KafkaModel, ModelConnection

NOW = 1_750_000_000.0
PATIENCE = 30.0


class Line(Protocol):
    """Connections to the brokers of one cluster, one for each broker."""

    brokers: tuple[int, ...]

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        """A topic with all brokers as replicas."""

    def request(self, broker: int, frame: bytes, *, answered: bool = True) -> bytes | None:
        """The response without its size; None: the broker has ended the connection."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def close(self) -> None:
        """End all connections."""


class ModelLine:
    """The model, whose time passes when a response is waited for."""

    def __init__(self, model: KafkaModel) -> None:
        self.model = model
        self.brokers = model.cluster.brokers
        self.now = NOW
        self._connections: dict[int, ModelConnection] = {}
        self._responses: list[bytes] = []
        self._closed: set[int] = set()

    @classmethod
    def of(cls, brokers: int, options: ClusterOptions, seed: int = 0) -> ModelLine:
        """A new cluster."""
        return cls(KafkaModel(brokers, random=Random(seed), options=options))

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        settings = {key.replace(".", "_"): value for key, value in config.items()}
        self.model.create_topic(name, partitions, len(self.brokers), **settings)

    def request(self, broker: int, frame: bytes, *, answered: bool = True) -> bytes | None:
        if broker in self._closed:
            self._closed.discard(broker)
            del self._connections[broker]
            return None
        if broker not in self._connections:
            self._connections[broker] = self.model.connect(
                broker, self._responses.append, lambda: self._closed.add(broker), self.now
            )
        self._responses.clear()
        self._connections[broker].receive(frame, self.now)
        while answered and not self._responses and broker not in self._closed:
            coming = self.model.tick(self.now)
            if not self._responses and broker not in self._closed:
                assert coming is not None, "no response will ever come"
                self.now = max(self.now, coming)
        if answered and not self._responses:
            self._closed.discard(broker)
            del self._connections[broker]
        return self._responses[0][4:] if self._responses else None

    def hang_up(self) -> None:
        """Forget the connections that brokers have ended."""
        for broker in self._closed:
            del self._connections[broker]
        self._closed.clear()

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while (coming := self.model.tick(self.now)) is not None and coming <= end:
            self.now = coming
        self.now = end
        self.model.tick(end)

    def close(self) -> None:
        for connection in self._connections.values():
            connection.lost(self.now)


class KafkaLine:
    """Real brokers, by blocking sockets."""

    def __init__(self, kafka: KafkaCluster) -> None:
        self.kafka = kafka
        self.brokers = tuple(broker.node_id for broker in kafka.brokers)
        self._sockets: dict[int, socket.socket] = {}

    def create_topic(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        asyncio.run(self.kafka.create_topic(name, partitions, len(self.brokers), config=config))

    def request(self, broker: int, frame: bytes, *, answered: bool = True) -> bytes | None:
        if broker not in self._sockets:
            at = self.kafka.brokers[broker - 1]
            self._sockets[broker] = socket.create_connection(
                (at.host, at.advertised_port), PATIENCE
            )
        connection = self._sockets[broker]
        connection.sendall(frame)
        if not answered:
            return None
        size = self._read(connection, 4)
        if size is None:
            self._sockets.pop(broker).close()
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
