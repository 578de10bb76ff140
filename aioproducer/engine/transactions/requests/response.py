"""The content of a coordinator's response. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from aioproducer.errors import ProtocolError
from aioproducer.model import Node, OffsetAndMetadata, TopicPartition

_OPERATION_NOT_ATTEMPTED: Final = 55
NO_PRODUCER_ID: Final = -1


@dataclass(frozen=True, slots=True)
class Response:
    """The content of a coordinator's response."""

    error_code: int = 0
    """The deciding error code, if the response is about several partitions."""
    message: str | None = None
    """The broker's own words."""
    partition: TopicPartition | None = None
    """The partition of the error code."""
    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1
    node: Node | None = None
    """The coordinator that was looked for."""
    offsets: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """The offsets of the partitions for which the group has one."""


def deciding_error(
    requested: Collection[TopicPartition], codes: Mapping[TopicPartition, int]
) -> Response:
    """The response of the first requested partition with an error of its own.

    A broker marks the other partitions OPERATION_NOT_ATTEMPTED.
    """
    for partition in requested:
        if partition not in codes:
            raise ProtocolError(f"the response does not mention {partition}")
    failed = {place: code for place, code in codes.items() if code and place in requested}
    for partition, code in failed.items():
        if code != _OPERATION_NOT_ATTEMPTED:
            return Response(code, partition=partition)
    return Response(_OPERATION_NOT_ATTEMPTED if failed else 0)


def assigned_producer_id(error_code: int, producer_id: int, epoch: int) -> Response:
    """The response that assigns a producer id. Raises :class:`ProtocolError` if it can't be one."""
    if not error_code and min(producer_id, epoch) < 0:
        raise ProtocolError(f"producer id {producer_id}, epoch {epoch} can't be assigned")
    return Response(error_code, producer_id=producer_id, epoch=epoch)
