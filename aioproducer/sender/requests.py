"""The small requests of the sender: metadata and the producer's identity. No I/O."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any, NamedTuple

from kio.static.protocol import RequestPayload

from aioproducer.cluster.metadata_response import MetadataNews, read_metadata
from aioproducer.errors import ProtocolError
from aioproducer.network.apis import Api, request_module

_FIRST_METADATA_WITH_TOPIC_IDS = 10


@dataclass(frozen=True, slots=True)
class MetadataRequest:
    """Ask for the brokers and for ``topics``, which are created where the brokers do that."""

    topics: frozenset[str]
    api: Api = Api.METADATA
    answered: bool = True

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module = request_module(Api.METADATA, version)
        options: dict[str, Any] = {}
        if version >= 8:
            options["include_topic_authorized_operations"] = False
        if 8 <= version <= 10:
            options["include_cluster_authorized_operations"] = False
        unnamed = {"topic_id": None} if version >= _FIRST_METADATA_WITH_TOPIC_IDS else {}
        request: RequestPayload = module.MetadataRequest(
            topics=tuple(
                module.MetadataRequestTopic(name=topic, **unnamed) for topic in sorted(self.topics)
            ),
            allow_auto_topic_creation=True,
            **options,
        )
        return request

    def read(self, response: Any) -> MetadataNews:
        """What the response says. Raises :class:`ProtocolError` for what can't be true."""
        return read_metadata(response, self.topics)


class AssignedIdentity(NamedTuple):
    """The answer to a request for a producer id."""

    error_code: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class InitProducerIdRequest:
    """Ask for a producer id and epoch (KIP-98)."""

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
        """What the response says. Raises :class:`ProtocolError` for what can't be true."""
        code = int(response.error_code)
        if code:
            return AssignedIdentity(code, -1, -1)
        identity = AssignedIdentity(code, int(response.producer_id), int(response.producer_epoch))
        if min(identity) < 0:
            raise ProtocolError(
                f"producer id {identity.producer_id}, epoch {identity.epoch} can't be assigned"
            )
        return identity
