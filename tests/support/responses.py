"""Responses of brokers, and their reading without an event loop."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network.request import LazyMetadataResponse
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node
from tests.support.kio_messages import (
    milliseconds,
    ours,
    response_bytes,
    response_module,
    version_of,
)

_T = TypeVar("_T")

NOTHING = milliseconds(0)


def metadata_response(
    topic: str,
    leaders: Sequence[int],
    code: int,
    brokers: Mapping[int, Node],
    epoch: int | Sequence[int],
    *,
    partition_code: int = 0,
    whole_code: int = 0,
    cluster_id: str | None = None,
) -> LazyMetadataResponse:
    parts: Any = response_module(Api.METADATA, 13)
    partitions = tuple(
        parts.MetadataResponsePartition(
            error_code=_Code(partition_code),
            partition_index=index,
            leader_id=leader,
            leader_epoch=epoch if isinstance(epoch, int) else epoch[index],
        )
        for index, leader in enumerate(leaders if not code else ())
    )
    response = parts.MetadataResponse(
        throttle_time=NOTHING,
        brokers=tuple(
            parts.MetadataResponseBroker(node_id=each.id, host=each.host, port=each.port)
            for each in brokers.values()
        ),
        topics=(
            parts.MetadataResponseTopic(
                error_code=_Code(code), name=topic, topic_id=UUID(int=1), partitions=partitions
            ),
        ),
        error_code=_Code(whole_code),
        cluster_id=cluster_id,
    )
    return metadata_answer(response)


class _Code(NamedTuple):
    """An error code to be written, of which kio need not know."""

    value: int


def metadata_answer(response: Any) -> LazyMetadataResponse:
    """``response``, one of kio's, as it comes from a connection; refusing it fails the test."""
    return unread(version_of(type(response)), response_bytes(response))


def unread(
    version: int, body: bytes, on_refusal: Any = None, on_left_over: Any = lambda: None
) -> LazyMetadataResponse:
    """An answer of these bytes; refusing it fails the test unless somebody hears of that."""

    def fail(error: ProtocolError) -> None:
        raise AssertionError(error)

    return LazyMetadataResponse(
        version, body, on_refusal=on_refusal or fail, on_left_over=on_left_over
    )


def read_to_its_end(
    answer: LazyMetadataResponse, asked: Collection[str], detailed: Collection[str] = ()
) -> MetadataNews:
    """What it says. Raises the :class:`ProtocolError` for which its connection ends."""
    refused: list[ProtocolError] = []
    said: MetadataNews | None = None
    with suppress(ProtocolError):
        said = at_once(unread(answer._version, answer._body, refused.append).read(asked, detailed))
    for error in refused:
        raise error
    assert said is not None, "it raised, and its connection stays"
    return said


def at_once(steps: Generator[object, None, _T]) -> _T:
    """What the last of them returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            said: _T = end.value
            return said


def produce_response(
    places: Iterable[tuple[str, int]],
    *,
    code: int = 0,
    offset: int = 42,
    log_append_time: datetime | None = None,
    leader: tuple[int, int] = (-1, -1),
    record_errors: Mapping[int, str] | None = None,
) -> Any:
    parts: Any = response_module(Api.PRODUCE, 12)
    wrong = tuple(
        parts.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
        for index, text in (record_errors or {}).items()
    )
    return ours(
        parts.ProduceResponse(
            responses=tuple(
                parts.TopicProduceResponse(
                    name=topic,
                    partition_responses=(
                        parts.PartitionProduceResponse(
                            index=partition,
                            error_code=ErrorCode(code),
                            base_offset=offset,
                            log_append_time=log_append_time,
                            record_errors=wrong,
                            current_leader=parts.LeaderIdAndEpoch(
                                leader_id=leader[0], leader_epoch=leader[1]
                            ),
                        ),
                    ),
                )
                for topic, partition in places
            ),
            throttle_time=NOTHING,
        )
    )


def identity_response(producer_id: int, code: int = 0) -> Any:
    parts: Any = response_module(Api.INIT_PRODUCER_ID, 4)
    return ours(
        parts.InitProducerIdResponse(
            throttle_time=NOTHING,
            error_code=ErrorCode(code),
            producer_id=producer_id,
            producer_epoch=0,
        )
    )
