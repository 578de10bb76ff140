"""One request to one broker over a blocking connection of its own."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any, Final

from aioproducer.engine.network.frames import (
    LENGTH_BYTES,
    decode_response,
    encode_request,
    encoded,
    request_form,
)
from aioproducer.engine.protocol import Api, request_schema

__all__ = ["create_topic", "metadata"]

_VERSIONS: Final = {Api.METADATA: 6, Api.CREATE_TOPICS: 3}
"""The common ground of Kafka 2.0 and Kafka 4."""


def metadata(address: tuple[str, int], *topics: str, timeout: float = 5.0) -> Any:
    """The brokers this broker knows, and these topics; raises OSError."""
    schema = request_schema(Api.METADATA)
    request = schema.MetadataRequest(
        topics=[schema.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
    )
    return _ask(address, Api.METADATA, request, timeout)


def create_topic(
    address: tuple[str, int],
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    timeout: float,
) -> Any:
    """Create a topic by any broker, or with ZooKeeper by the controller; raises OSError."""
    schema = request_schema(Api.CREATE_TOPICS)
    topic = schema.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            schema.CreatableTopicConfig(name=key, value=value) for key, value in config.items()
        ],
    )
    request = schema.CreateTopicsRequest(topics=[topic], timeout_ms=round(timeout * 1000))
    return _ask(address, Api.CREATE_TOPICS, request, timeout + 5).topics[0]


def _ask(address: tuple[str, int], api: Api, request: Any, timeout: float) -> Any:
    version = _VERSIONS[api]
    form = request_form(api, version, "aioproducer-testing")
    pieces, _ = encode_request(encoded(api, version, request).parts, 0, form)
    with (
        socket.create_connection(address, timeout) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(b"".join(pieces))
        size = int.from_bytes(stream.read(LENGTH_BYTES), "big")
        answer = stream.read(size)
    if not answer or len(answer) < size:
        raise ConnectionError("the broker closed the connection")
    return decode_response(api, version, answer).response
