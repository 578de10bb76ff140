"""OffsetFetch: read a group's committed offsets (KIP-447). No I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from aioproducer.engine.protocol import Schema
from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    Coordinator,
    CoordinatorRequest,
    by_topic,
    group_coordinator,
)
from aioproducer.engine.transactions.requests.reaction import Reaction
from aioproducer.engine.transactions.requests.response import Response, deciding_error
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.model import OffsetAndMetadata, TopicPartition

FIRST_STABLE_VERSION: Final = 7
_FIRST_VERSION_WITH_SEVERAL_GROUPS: Final = 8
_FIRST_VERSION_WITH_MEMBER: Final = 9


@dataclass(frozen=True, slots=True, eq=False)
class OffsetFetch(CoordinatorRequest):
    """Fetch a group's offsets; offsets that an open transaction would change are waited for."""

    group_id: str
    partitions: frozenset[TopicPartition]

    api_key: ClassVar[int] = 9
    otherwise: ClassVar[Reaction] = Reaction.ABORT
    topic_operation: ClassVar[str | None] = "DESCRIBE"

    def coordinator_for(self, transactional_id: str) -> Coordinator:
        """The group's coordinator."""
        return group_coordinator(self.group_id)

    def describe(self) -> str:
        """The request in error messages."""
        return f"OffsetFetch of group {self.group_id!r}"

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        if context.version < FIRST_STABLE_VERSION:
            raise UnsupportedVersionError(
                "the broker is too old to exclude offsets of open transactions (KIP-447, Kafka 2.5)"
            )
        return offset_fetch_message(context.schema, context.version, self.group_id, self.partitions)

    def read(self, response: Any) -> Response:
        """The group's offsets, or the error code that decides."""
        return fetched_offsets(response, self.group_id, self.partitions)


def offset_fetch_message(
    schema: Schema,
    version: int,
    group_id: str,
    partitions: Collection[TopicPartition] | None,
    *,
    stable: bool = True,
    member: tuple[str, int] | None = None,
) -> Any:
    """The request for a group's offsets; ``partitions``: None for all that it has offsets of.

    ``stable``: only once no open transaction would change them, where the broker knows of these
    (Kafka 2.5). ``member``: the id and epoch of a member (KIP-848), which is refused if it has
    left.
    """
    several = version >= _FIRST_VERSION_WITH_SEVERAL_GROUPS
    kind = schema.OffsetFetchRequestTopics if several else schema.OffsetFetchRequestTopic
    topics = None
    if partitions is not None:
        topics = tuple(
            kind(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in by_topic(partitions).items()
        )
    group: dict[str, Any] = {"group_id": group_id, "topics": topics}
    if version >= _FIRST_VERSION_WITH_MEMBER and member is not None:
        group["member_id"], group["member_epoch"] = member
    if several:
        group = {"groups": (schema.OffsetFetchRequestGroup(**group),)}
    if version >= FIRST_STABLE_VERSION:
        group["require_stable"] = stable
    return schema.OffsetFetchRequest(**group)


def fetched_offsets(
    response: Any, group_id: str, requested: Collection[TopicPartition] | None
) -> Response:
    """The offsets in a response, or the error code that decides; ``requested``: None for all.

    Raises :class:`ProtocolError` if it is about another group, or leaves out a partition.
    """
    if response.groups is None:
        return _offsets(requested, response)
    for group in response.groups:
        if group.group_id == group_id:
            return _offsets(requested, group)
    raise ProtocolError(f"the response does not mention group {group_id!r}")


def _offsets(requested: Collection[TopicPartition] | None, group: Any) -> Response:
    if group.error_code:
        return Response(group.error_code)
    found = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in group.topics
        for each in topic.partitions
    }
    if requested is None:
        requested = found.keys()
    codes = {partition: each.error_code for partition, each in found.items()}
    decided = deciding_error(requested, codes)
    if decided.error_code:
        return decided
    return Response(
        offsets={
            partition: OffsetAndMetadata(
                each.committed_offset,
                each.metadata or "",
                each.committed_leader_epoch if each.committed_leader_epoch >= 0 else None,
            )
            for partition, each in found.items()
            if each.committed_offset >= 0 and partition in requested
        }
    )
