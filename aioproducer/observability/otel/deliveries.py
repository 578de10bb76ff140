"""The last produce request of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from opentelemetry.trace import SpanContext

from aioproducer.model import Node, NodeId, TopicPartition

__all__ = ["Deliveries", "LastRequest"]

_MOST: Final = 10_000


class LastRequest(NamedTuple):
    """A produce request that carried a batch."""

    node: Node
    span: SpanContext | None
    """The request's own span, if it is recorded."""


class Deliveries:
    """Remembers requests by partition, and brokers by id; within bounds."""

    def __init__(self) -> None:
        self.ended = 0
        """The number of requests that have ended."""
        self._requests: dict[TopicPartition, tuple[int, LastRequest]] = {}
        self._nodes: dict[NodeId, Node] = {}

    def add(self, partitions: Iterable[TopicPartition], request: LastRequest) -> None:
        """A request has ended."""
        self.ended += 1
        for memory in (self._requests, self._nodes):
            if len(memory) > _MOST:
                memory.clear()
        self._nodes[request.node.id] = request.node
        for partition in partitions:
            self._requests[partition] = (self.ended, request)

    def last(self, partition: TopicPartition, since: int) -> LastRequest | None:
        """The last request with a batch for the partition, of those after the first ``since``."""
        number, request = self._requests.get(partition, (0, None))
        return request if number > since else None

    def node(self, node: NodeId) -> Node | None:
        """The address of a broker that has got a request."""
        return self._nodes.get(node)
