"""The link of a consumer to the coordinator of its group: requests, errors, another coordinator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import Any, Final
from uuid import UUID

from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.client.offset_lookup import portions
from aioproducer.engine.groups.requests import (
    LAST_VERSION_WITH_NAMES,
    ClassicGroup,
    DescribeClassicGroup,
    FetchedOffsets,
    GroupOffsetFetch,
    Membership,
    OffsetCommit,
    Reaction,
    reaction_to,
)
from aioproducer.engine.metrics import ProducerMetrics
from aioproducer.engine.network.request import Request
from aioproducer.engine.protocol import Api
from aioproducer.engine.transactions.requests import FindCoordinator, group_coordinator
from aioproducer.errors import (
    BrokerConnectionError,
    ConfigError,
    NetworkError,
    ProducerError,
    ProtocolError,
    RebootstrapRequiredError,
    RequestTimeoutError,
)
from aioproducer.errors.broker import ErrorCode, error_about
from aioproducer.foundation.codecs import load_codecs
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition

JOIN_GRACE_MS: Final = 5_000
"""The time beyond the slowest member's that the coordinator has to answer. Source: Kafka's
``AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE``."""
_SHORT_SECONDS: Final = 5.0
"""Seconds for a request that waits for nobody."""
_MOCK_CLUSTER: Final = "mockCluster"
"""The ids of librdkafka's mock clusters begin so. One closes its connections when a member joins,
or even dies."""
_NO_GROUPS: Final = (
    "bootstrap_servers: this is a mock cluster, which has no consumer groups. Read with "
    "aioproducer.Reader, which needs no group, or use Kafka: `python -m "
    "aioproducer.testing.kafka_cluster` starts it"
)


class CoordinatorLink:
    """Requests to the coordinator of ``group_id``, on two connections of its own.

    A broker serves the requests of a connection one after another. A fetch that waits for records
    would hold heartbeats up, and so would a JoinGroup that waits for the slowest member: that one
    goes another way, and may take ``longest_wait_ms`` and a while more. Source: Kafka's
    ``ConsumerCoordinator``.
    """

    def __init__(
        self,
        config: ProducerConfig,
        client_id: str,
        group_id: str,
        longest_wait_ms: int,
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self.group_id = group_id
        self.client = ClusterClient(config, client_id, "Consumer", metrics)
        self.client.loads = (load_codecs,)  # for the records that the consumer reads
        self._patient = ClusterClient(
            _patient_config(config, longest_wait_ms), client_id, "Consumer", metrics
        )
        self._longest_wait = (longest_wait_ms + JOIN_GRACE_MS) / 1000
        self._node: Node | None = None
        self._waited = inf
        """The clock's time of the last answer to a request that waits for other members; infinite:
        there was none, and the connection is a new one."""

    async def start(self) -> None:
        """Take requests from now on."""
        await self.client.start()
        await self._patient.start()

    async def close(self) -> None:
        """End the connections."""
        await self._patient.close()
        await self.client.close()

    # --- requests --------------------------------------------------------------------------

    async def ask(self, request: Request, timeout: float | None = None) -> Any:
        """The coordinator's answer, within ``timeout`` seconds, or ``request_timeout_ms``."""
        return await self._ask(self.client, request, timeout)

    async def wait_for(self, request: Request) -> Any:
        """The coordinator's answer to a request that waits for other members.

        Its connection is idle between rebalances, and may be dead by now. That would show only
        after the longest wait, so a short request goes ahead of it.
        """
        if self.client.clock() - self._waited > _SHORT_SECONDS:
            find = FindCoordinator(group_coordinator(self.group_id))
            await self._ask(self._patient, find, _SHORT_SECONDS)
        answer = await self._ask(self._patient, request, self._longest_wait)
        self._waited = self.client.clock()
        return answer

    def stop_waiting(self, why: str) -> None:
        """End a request that waits for other members: another one is due."""
        if self._node is not None:
            self._patient.end_connection(self._node, BrokerConnectionError(why))

    def follow(self, cluster_id: str) -> None:
        """Look for the coordinator again: another cluster answers."""
        self._node = None
        for each in (self.client, self._patient):
            each.follow(cluster_id)

    async def _ask(self, client: ClusterClient, request: Request, timeout: float | None) -> Any:
        node = await self._coordinator()
        try:
            return await client.request(request, node, timeout)
        except (NetworkError, RequestTimeoutError, RebootstrapRequiredError) as error:
            self._node = None  # or another broker has its address now
            for each in (self.client, self._patient):  # no other request must wait for it
                each.end_connection(node, error)
            raise

    async def _coordinator(self) -> Node:
        if self._node is None:
            found = await self.client.describe()  # the bootstrap servers may be down
            if found.cluster_id is not None and found.cluster_id.startswith(_MOCK_CLUSTER):
                raise ConfigError(_NO_GROUPS)
            find = FindCoordinator(group_coordinator(self.group_id))
            answer = await self.client.request(find)
            if answer.error_code:
                raise error_about(
                    f"the coordinator of group {self.group_id!r}",
                    answer.error_code,
                    Api.FIND_COORDINATOR,
                )
            self._node = answer.node
        return self._node

    async def describe(self, timeout: float) -> tuple[ClassicGroup, bool]:
        """The group, and True if its coordinator speaks the protocol of KIP-848: one attempt."""
        found: ClassicGroup = await self.ask(DescribeClassicGroup(self.group_id), timeout)
        node = await self._coordinator()
        if not (versions := self.client.versions_of(node)):
            raise BrokerConnectionError(f"{node}: the connection has ended")
        return found, Api.CONSUMER_GROUP_HEARTBEAT.name in versions

    def react(self, code: int, *, is_served: bool = False) -> Reaction:
        """The reaction to an error of the coordinator, which is looked for again if need be.

        ``is_served``: see :func:`~aioproducer.engine.groups.requests.reaction_to`.
        """
        reaction = reaction_to(code, is_served=is_served)
        if reaction is Reaction.FIND_COORDINATOR:
            self._node = None
        return reaction

    def may_pass(self, error: ProducerError) -> bool:
        """True if another attempt may succeed. The next response may be intact."""
        return isinstance(error, (ProtocolError, TimeoutError)) or self.client.may_pass(error)

    # --- offsets ---------------------------------------------------------------------------

    async def fetch_offsets(
        self, member: Membership, partitions: frozenset[TopicPartition]
    ) -> FetchedOffsets:
        """The group's offsets, once no open transaction would change them: one attempt."""
        offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for portion in portions(sorted(partitions)):
            found: FetchedOffsets = await self.ask(GroupOffsetFetch(member, frozenset(portion)))
            self.react(found.error_code)
            if found.error_code:
                return found
            offsets |= found.offsets
        return FetchedOffsets(0, offsets)

    async def commit(
        self,
        member: Membership,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        topic_ids: Mapping[str, UUID],
    ) -> dict[TopicPartition, int]:
        """The error code of each partition: one attempt. ``topic_ids``: those that are known.

        Before version 10 of OffsetCommit a coordinator takes offsets of a topic that was deleted
        for those of its successor.
        """
        request = OffsetCommit(member, offsets, topic_ids)
        gone = await self._gone(request) if member.has_epochs else ()
        codes = {each: int(ErrorCode.UNKNOWN_TOPIC_ID) for each in offsets if each.topic in gone}
        if codes:
            left = {where: at for where, at in offsets.items() if where not in codes}
            request = OffsetCommit(member, left, topic_ids)
        if request.offsets:
            codes |= await self.ask(request)
        return codes

    async def _gone(self, request: OffsetCommit) -> Collection[str]:
        """The topics that have other ids now, if the coordinator can't see it."""
        topic_ids = request.topic_ids
        node = await self._coordinator()
        _, version = self.client.versions_of(node).get(Api.OFFSET_COMMIT.name, (0, 0))
        if request.chosen_version(version) > LAST_VERSION_WITH_NAMES or not topic_ids:
            return ()
        found = (await self.client.describe(tuple(topic_ids))).topics
        return {
            name
            for name, topic_id in topic_ids.items()
            if name in found and found[name].topic_id not in (None, topic_id)
        }


def _patient_config(config: ProducerConfig, wait_ms: int) -> ProducerConfig:
    """``config`` for a client whose answers may take ``wait_ms`` and a while more."""
    longest = max(config.request_timeout_ms, wait_ms + JOIN_GRACE_MS)
    delivery = max(config.delivery_timeout_ms, longest + (config.linger_ms or 1_000))
    return config.replace(request_timeout_ms=longest, delivery_timeout_ms=delivery)
