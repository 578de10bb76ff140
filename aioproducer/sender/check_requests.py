"""The requests of a check: brokers, topics and the principal's permissions. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kio.static.protocol import RequestPayload

from aioproducer.errors import ProtocolError
from aioproducer.model import Node
from aioproducer.network.apis import Api, request_module
from aioproducer.network.frames import read_response
from aioproducer.network.lazy_metadata import LazyMetadataResponse

_FIRST_WITH_OPERATIONS: Final = 8
_LAST_WITH_CLUSTER_OPERATIONS: Final = 10
_FIRST_WITH_TOPIC_IDS: Final = 10
NO_LEADER: Final = -1
_UNKNOWN: Final = -(2**31)
_WRITE: Final = 4
"""Kafka's number of the operation (``AclOperation``), and its bit in a set of them."""


class FoundTopic(NamedTuple):
    """A topic as a broker describes it."""

    error_code: int
    leaders: frozenset[int]
    """The leaders of its partitions; -1: a partition has none."""
    partitions: int
    may_write: bool | None
    """None: the broker does not report it."""


class Found(NamedTuple):
    """A cluster as one of its brokers describes it."""

    error_code: int
    cluster_id: str | None
    brokers: tuple[Node, ...]
    topics: Mapping[str, FoundTopic]


@dataclass(frozen=True, slots=True)
class DescribeRequest:
    """Ask for the cluster and for topics, which are not created (KIP-430)."""

    topics: tuple[str, ...]
    api: Api = Api.METADATA
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.METADATA, version)
        named: dict[str, Any] = {} if version < _FIRST_WITH_TOPIC_IDS else {"topic_id": None}
        options: dict[str, Any] = {}
        if version >= _FIRST_WITH_OPERATIONS:
            options["include_topic_authorized_operations"] = True
        if _FIRST_WITH_OPERATIONS <= version <= _LAST_WITH_CLUSTER_OPERATIONS:
            options["include_cluster_authorized_operations"] = False
        request: RequestPayload = module.MetadataRequest(
            topics=tuple(module.MetadataRequestTopic(name=name, **named) for name in self.topics),
            allow_auto_topic_creation=False,
            **options,
        )
        return request

    def read(self, response: LazyMetadataResponse) -> Found:
        """The content of the response. Raises :class:`ProtocolError` if it contradicts itself."""
        return read_response(response.whole(), self._read)

    def _read(self, said: Any) -> Found:
        found = {str(topic.name): _found(topic) for topic in said.topics}
        missing = set(self.topics) - found.keys()
        if missing:
            raise ProtocolError(f"the response does not mention the topics {sorted(missing)}")
        return Found(
            int(getattr(said, "error_code", 0)),
            said.cluster_id,
            tuple(
                Node(int(each.node_id), str(each.host), int(each.port), each.rack)
                for each in said.brokers
            ),
            found,
        )


def _found(topic: Any) -> FoundTopic:
    operations: int = getattr(topic, "topic_authorized_operations", _UNKNOWN)
    return FoundTopic(
        int(topic.error_code),
        frozenset(max(int(each.leader_id), NO_LEADER) for each in topic.partitions),
        len(topic.partitions),
        None if operations == _UNKNOWN else bool(operations >> _WRITE & 1),
    )
