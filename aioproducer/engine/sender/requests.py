"""The requests of the sender besides Produce: metadata, producer id. No I/O."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.network.request import LazyMetadataResponse
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors import ProtocolError

_NO_OWN_TIMEOUT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetadataRequest:
    """Request the brokers and topics. Brokers that create topics create missing ones."""

    asked: Asked
    detailed: frozenset[str] = frozenset()
    """The topics to return with replicas."""
    api: Api = Api.METADATA
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.METADATA)
        topic = schema.MetadataRequestTopic
        request = schema.MetadataRequest(
            topics=[topic(name=name) for name in sorted(self.asked.topics)]
        )
        return encoded(Api.METADATA, version, request)

    def read(self, response: LazyMetadataResponse) -> Generator[None, None, MetadataNews]:
        """The content of the response, read in steps. A step may raise :class:`ProtocolError`."""
        return response.read(self.asked.topics, self.detailed)


class AssignedIdentity(NamedTuple):
    """The response to a request for a producer id."""

    error_code: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InitProducerIdRequest:
    """Request a producer id and epoch (KIP-98)."""

    api: Api = Api.INIT_PRODUCER_ID
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        request = request_schema(Api.INIT_PRODUCER_ID).InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_OWN_TIMEOUT
        )
        return encoded(Api.INIT_PRODUCER_ID, version, request)

    def read(self, response: Any) -> AssignedIdentity:
        """The content of the response. Raises :class:`ProtocolError` for an impossible id."""
        code = response.error_code
        if code:
            return AssignedIdentity(code, -1, -1)
        identity = AssignedIdentity(code, response.producer_id, response.producer_epoch)
        if min(identity) < 0:
            raise ProtocolError(
                f"producer id {identity.producer_id}, epoch {identity.epoch} can't be assigned"
            )
        return identity
