"""The small requests of the sender: metadata and the producer's identity. No I/O."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

from kio.static.protocol import RequestPayload

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
