"""The small requests of the sender: metadata and the producer's identity. No I/O."""

from __future__ import annotations

import datetime
from collections.abc import Generator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from kio.static.protocol import RequestPayload

from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network.apis import Api, request_module
from aioproducer.engine.network.frames import EncodedPayload, encode
from aioproducer.engine.network.lazy_metadata import LazyMetadataResponse
from aioproducer.engine.sender.produce import array_length, text
from aioproducer.errors import ProtocolError

_FIRST_METADATA_WITH_TOPIC_IDS: Final = 10
_SOME_NAME: Final = "name"


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """Request the brokers and topics. Brokers that create topics create missing ones."""

    asked: Asked
    detailed: frozenset[str] = frozenset()
    """The topics to return with replicas."""
    api: Api = Api.METADATA
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        kind: Any = request_module(Api.METADATA, version).MetadataRequest
        flexible = kind.__flexible__
        before, after = _around_name(version)
        parts = [array_length(flexible, len(self.asked.topics))]
        for topic in sorted(self.asked.topics):
            parts += (before, text(flexible, topic), after)
        parts.append(_encoded_rest(version))
        return EncodedPayload(kind, [b"".join(parts)])

    def read(self, response: LazyMetadataResponse) -> Generator[None, None, MetadataNews]:
        """The content of the response, read in steps. A step may raise :class:`ProtocolError`."""
        return response.read(self.asked.topics, self.detailed)


# kio's encoder is slow for thousands of topics, so it encodes one of them in each version.


@cache
def _around_name(version: int) -> tuple[bytes, bytes]:
    """The bytes of a topic before and after its name."""
    module = request_module(Api.METADATA, version)
    unnamed = {"topic_id": None} if version >= _FIRST_METADATA_WITH_TOPIC_IDS else {}
    topic = module.MetadataRequestTopic(name=_SOME_NAME, **unnamed)
    before, after = encode(topic).split(text(topic.__flexible__, _SOME_NAME))
    return before, after


@cache
def _encoded_rest(version: int) -> bytes:
    """The fields after the topics, which are the first field of every version."""
    module = request_module(Api.METADATA, version)
    options: dict[str, Any] = {}
    if version >= 8:
        options["include_topic_authorized_operations"] = False
    if 8 <= version <= 10:
        options["include_cluster_authorized_operations"] = False
    request = module.MetadataRequest(topics=(), allow_auto_topic_creation=True, **options)
    return encode(request).removeprefix(array_length(module.MetadataRequest.__flexible__, 0))


class AssignedIdentity(NamedTuple):
    """The response to a request for a producer id."""

    error_code: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """Request a producer id and epoch (KIP-98)."""

    api: Api = Api.INIT_PRODUCER_ID
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module = request_module(Api.INIT_PRODUCER_ID, version)
        request: RequestPayload = module.InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout=datetime.timedelta(milliseconds=2**31 - 1),
        )
        return request

    def read(self, response: Any) -> AssignedIdentity:
        """The content of the response. Raises :class:`ProtocolError` for an impossible id."""
        code = int(response.error_code)
        if code:
            return AssignedIdentity(code, -1, -1)
        identity = AssignedIdentity(code, int(response.producer_id), int(response.producer_epoch))
        if min(identity) < 0:
            raise ProtocolError(
                f"producer id {identity.producer_id}, epoch {identity.epoch} can't be assigned"
            )
        return identity
