"""OffsetFetch: the places from which a group continues. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aioproducer.engine.groups.requests.member import Membership
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.transactions.requests.offset_fetch import (
    fetched_offsets,
    offset_fetch_message,
)
from aioproducer.model import OffsetAndMetadata, TopicPartition


class FetchedOffsets(NamedTuple):
    """The coordinator's answer."""

    error_code: int
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    """None: the group has committed no offset of the partition."""


@dataclass(frozen=True, slots=True)
class GroupOffsetFetch:
    """Fetch committed offsets. Those that an open transaction would change are not ready yet."""

    member: Membership
    partitions: frozenset[TopicPartition]
    api: Api = Api.OFFSET_FETCH
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.OFFSET_FETCH)
        member = None
        if self.member.has_epochs and self.member.generation > 0:
            member = self.member.member_id, self.member.generation
        message = offset_fetch_message(
            schema, version, self.member.group_id, self.partitions, member=member
        )
        return encoded(Api.OFFSET_FETCH, version, message)

    def read(self, response: Any) -> FetchedOffsets:
        """The offsets, or the error code that decides."""
        said = fetched_offsets(response, self.member.group_id, self.partitions)
        if said.error_code:
            return FetchedOffsets(said.error_code, {})
        return FetchedOffsets(
            0, {where: said.offsets.get(where) for where in sorted(self.partitions)}
        )
