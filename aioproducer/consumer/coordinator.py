"""The link of a consumer to the coordinator of its group: requests, errors, another coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aioproducer.admin.requests import FindCoordinatorRequest
from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.groups.requests import (
    FetchedOffsets,
    GroupOffsetFetch,
    Membership,
    OffsetCommit,
)
from aioproducer.engine.network.request import Request
from aioproducer.errors import NetworkError, RequestTimeoutError, error_about
from aioproducer.errors.codes import ErrorCode
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition

JOIN_GRACE_MS: Final = 5_000
"""The time beyond the slowest member's that the coordinator has to answer. Source: Kafka's
``AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE``."""
ELSEWHERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Codes after which the coordinator is looked for again."""


class CoordinatorLink:
    """Requests to the coordinator of ``group_id``, on a client of their own.

    The client's own ``request_timeout_ms`` has to be longer than the wait for the slowest member
    (:func:`patient_config`). A broker serves the requests of a connection one after another, so a
    fetch that waits for records would hold heartbeats up. Source: Kafka's ``ConsumerCoordinator``.
    """

    def __init__(
        self, client: ClusterClient, finder: ClusterClient, group_id: str, request_timeout: float
    ) -> None:
        self.client = client
        self._finder = finder
        """Knows the brokers of the cluster, and so finds another coordinator when one dies."""
        self.group_id = group_id
        self.request_timeout = request_timeout
        """Seconds that the coordinator has for an answer, but for those that wait for others."""
        self._node: Node | None = None

    def forget(self) -> None:
        """Look for the coordinator again: another broker may be it."""
        self._node = None

    async def ask(self, request: Request, timeout: float) -> Any:
        """The coordinator's answer. Errors of connections are raised once it is forgotten.

        ``timeout``: seconds.
        """
        node = await self._coordinator()
        try:
            return await self.client.request(request, node, timeout)
        except (NetworkError, RequestTimeoutError) as error:
            self.forget()
            self.client.end_connection(node, error)  # the next request must not wait behind this
            raise

    async def _coordinator(self) -> Node:
        if self._node is None:
            find = FindCoordinatorRequest(self.group_id)
            answer = await self._finder.request(find, None, self.request_timeout)
            if answer.error_code:
                raise error_about(f"the coordinator of group {self.group_id!r}", answer.error_code)
            self._node = answer.value
        return self._node

    async def committed(
        self, member: Membership, partitions: frozenset[TopicPartition], timeout: float
    ) -> Mapping[TopicPartition, OffsetAndMetadata | None]:
        """The committed offsets, once no open transaction would change them.

        Raises the error of the answer, or of the time that is over.
        """

        async def attempt() -> Mapping[TopicPartition, OffsetAndMetadata | None]:
            request = GroupOffsetFetch(member, partitions)
            found: FetchedOffsets = await self.ask(request, self.request_timeout)
            self.check(found.error_code, "the committed offsets")
            return found.offsets

        return await self.client.retry(
            attempt, timeout=timeout, doing=f"fetching the offsets of group {self.group_id!r}"
        )

    async def commit(
        self,
        member: Callable[[], Membership],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float,
    ) -> None:
        """Commit ``offsets`` as the present ``member``.

        Raises the first error that does not pass in time.
        """

        async def attempt() -> None:
            codes = await self.ask(OffsetCommit(member(), offsets), self.request_timeout)
            for where, code in codes.items():
                self.check(code, f"the offset of {where}")

        await self.client.retry(
            attempt, timeout=timeout, doing=f"committing the offsets of group {self.group_id!r}"
        )

    def check(self, code: int, what: str) -> None:
        """Raise the error of ``code``; the coordinator is looked for again if it says so."""
        if not code:
            return
        if code in ELSEWHERE:
            self.forget()
        raise error_about(f"{what} of group {self.group_id!r}", code)


def patient_config(config: ProducerConfig, wait_ms: int) -> ProducerConfig:
    """``config`` for a client whose answers may take ``wait_ms`` and a while more."""
    longest = max(config.request_timeout_ms, wait_ms + JOIN_GRACE_MS)
    delivery = max(config.delivery_timeout_ms, longest + (config.linger_ms or 1_000))
    return config.replace(request_timeout_ms=longest, delivery_timeout_ms=delivery)
