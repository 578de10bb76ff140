"""The requests of the sender besides Produce: metadata, producer id. No I/O."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network.request import LazyMetadataResponse, SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import ProtocolError

_NO_OWN_TIMEOUT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MetadataRequest(SchemaRequest):
    """Request the brokers and topics. Brokers that create topics create missing ones."""

    asked: Asked
    detailed: frozenset[str] = frozenset()
    """The topics to return with replicas."""
    api = Api.METADATA

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        topic = schema.MetadataRequestTopic
        return schema.MetadataRequest(
            topics=[topic(name=name) for name in sorted(self.asked.topics)]
        )

    def read(self, response: LazyMetadataResponse) -> Generator[None, None, MetadataNews]:
        """The content of the response, read in steps. A step may raise :class:`ProtocolError`."""
        return response.read(self.asked.topics, self.detailed)


class AssignedIdentity(NamedTuple):
    """The response to a request for a producer id."""

    error_code: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InitProducerIdRequest(SchemaRequest):
    """Request a producer id and epoch (KIP-98)."""

    api = Api.INIT_PRODUCER_ID

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=_NO_OWN_TIMEOUT
        )

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
