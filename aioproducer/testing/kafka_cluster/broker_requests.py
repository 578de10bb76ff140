"""One request to one broker over a blocking connection of its own.

Kafka 2.0 and Kafka 4 have these versions in common.
"""

from __future__ import annotations

import datetime
import socket
from collections.abc import Mapping
from io import BytesIO
from typing import TypeVar

from kio.schema.create_topics.v3.request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kio.schema.create_topics.v3.response import CreatableTopicResult, CreateTopicsResponse
from kio.schema.metadata.v6.request import MetadataRequest, MetadataRequestTopic
from kio.schema.metadata.v6.response import MetadataResponse
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.response_header.v0.header import ResponseHeader
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

__all__ = ["create_topic", "metadata"]

_Response = TypeVar("_Response", MetadataResponse, CreateTopicsResponse)


def metadata(address: tuple[str, int], *topics: str, timeout: float = 5.0) -> MetadataResponse:
    """The brokers this broker knows, and these topics; raises OSError."""
    request = MetadataRequest(
        topics=tuple(MetadataRequestTopic(name=TopicName(topic)) for topic in topics),
        allow_auto_topic_creation=False,
    )
    return _ask(address, request, MetadataResponse, timeout)


def create_topic(
    address: tuple[str, int],
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    timeout: float,
) -> CreatableTopicResult:
    """Create a topic by any broker, or with ZooKeeper by the controller; raises OSError."""
    topic = CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(replication_factor),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=key, value=value) for key, value in config.items()),
    )
    request = CreateTopicsRequest(
        topics=(topic,), timeout=i32Timedelta.parse(datetime.timedelta(seconds=timeout))
    )
    return _ask(address, request, CreateTopicsResponse, timeout + 5).topics[0]


def _ask(
    address: tuple[str, int],
    request: MetadataRequest | CreateTopicsRequest,
    response_type: type[_Response],
    timeout: float,
) -> _Response:
    header = RequestHeader(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(0),
        client_id="aioproducer-testing",
    )
    frame = BytesIO()
    entity_writer(RequestHeader)(frame, header)
    if isinstance(request, MetadataRequest):
        entity_writer(MetadataRequest)(frame, request)
    else:
        entity_writer(CreateTopicsRequest)(frame, request)
    payload = frame.getvalue()
    with (
        socket.create_connection(address, timeout) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(len(payload).to_bytes(4, "big") + payload)
        size = int.from_bytes(stream.read(4), "big")
        answer = stream.read(size)
    if not answer or len(answer) < size:
        raise ConnectionError("the broker closed the connection")
    _, header_size = entity_reader(ResponseHeader)(answer, 0)
    response, _ = entity_reader(response_type)(answer, header_size)
    return response
