"""Produce requests, version by version. No I/O."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple
from uuid import UUID

from kio.serial.writers import (
    write_compact_array_length,
    write_empty_tagged_fields,
    write_legacy_array_length,
)
from kio.static.primitive import i32

from aioproducer.accumulator import ProducerBatch
from aioproducer.model import TopicPartition, TransactionHandle
from aioproducer.network.apis import Api, request_module
from aioproducer.network.frames import Buffer, EncodedPayload, UsualResponse, encode
from aioproducer.sender.produce_response import (
    FIRST_USUAL_VERSION,
    FIRST_VERSION_WITH_TOPIC_IDS,
    ProduceResults,
    read_produce_response,
    read_usual_response,
)

_LAST_VERSION_WITHOUT_ADDING = 11
"""A later version takes its partitions into the transaction (KIP-890)."""


class EncodedBatch(NamedTuple):
    """A batch and its bytes in this request."""

    batch: ProducerBatch
    data: Buffer


@dataclass(frozen=True, slots=True)
class ProduceRequest:
    """One batch for each of several partitions of one leader."""

    batches: Sequence[EncodedBatch]
    acks: int
    timeout_ms: int
    topic_ids: Mapping[str, UUID | None]
    """The ids of the topics in ``batches``."""
    transaction: TransactionHandle | None = None
    """The transaction that the batches are part of."""
    api: Api = Api.PRODUCE

    @property
    def answered(self) -> bool:
        """False with ``acks=0``: the broker sends no response."""
        return self.acks != 0

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or the highest below it that needs no unknown topic id."""
        if version >= FIRST_VERSION_WITH_TOPIC_IDS and not all(self.topic_ids.values()):
            version = FIRST_VERSION_WITH_TOPIC_IDS - 1
        transactional_id = None
        if self.transaction is not None:
            transactional_id = self.transaction.transactional_id
            if self.transaction.version == 1:
                version = min(version, _LAST_VERSION_WITHOUT_ADDING)
        kind: Any = request_module(Api.PRODUCE, version).ProduceRequest
        flexible = kind.__flexible__
        tags = _no_tags(flexible)
        by_topic: dict[str, list[EncodedBatch]] = {}
        for each in self.batches:
            by_topic.setdefault(each.batch.topic_partition.topic, []).append(each)
        parts: list[Buffer] = [
            _request_head(version, transactional_id, self.acks, self.timeout_ms),
            array_length(flexible, len(by_topic)),
        ]
        for topic, batches in by_topic.items():
            named = self.topic_ids[topic] if version >= FIRST_VERSION_WITH_TOPIC_IDS else topic
            parts += (_topic_head(version, named), array_length(flexible, len(batches)))
            for batch, data in batches:
                partition = batch.topic_partition.partition
                parts += (
                    _partition_head(version, partition),
                    array_length(flexible, len(data)),
                    data,
                    tags,
                )
            parts.append(tags)
        parts.append(tags)
        return EncodedPayload(kind, parts, self._reader(version))

    def _reader(self, version: int) -> Callable[[bytes], UsualResponse | None] | None:
        """Reads the usual response of ``version``; None: there is no response, or no usual one."""
        if version < FIRST_USUAL_VERSION or self.acks == 0:
            return None
        names = None
        if version >= FIRST_VERSION_WITH_TOPIC_IDS:
            names = {_topic_head(version, named): name for name, named in self.topic_ids.items()}
        return partial(read_usual_response, batches=self._batches(), names=names)

    def _batches(self) -> dict[TopicPartition, ProducerBatch]:
        return {batch.topic_partition: batch for batch, _ in self.batches}

    def read(self, response: Any) -> ProduceResults:
        """The content of the response. Raises :class:`ProtocolError` if it is invalid."""
        return read_produce_response(response, self._batches(), self.topic_ids)


# Most parts of a request equal the previous request's, and kio's encoder is slow. So kio encodes
# each constant part once. The variable part is last in its struct, with its length in front. Topics
# are not constant: a cold start has thousands of them.


@lru_cache(maxsize=256)
def _request_head(version: int, transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    module = request_module(Api.PRODUCE, version)
    timeout = datetime.timedelta(milliseconds=timeout_ms)
    return _head(
        module.ProduceRequest(
            transactional_id=transactional_id, acks=acks, timeout=timeout, topic_data=()
        )
    )


@lru_cache(maxsize=65_536)
def _topic_head(version: int, topic: str | UUID | None) -> bytes:
    """The id or the name: no field is before it in any version."""
    if isinstance(topic, UUID):
        return topic.bytes
    assert topic is not None, f"a request of version {version} has a topic without a name"
    return text(_is_flexible(version), topic)


@cache
def _is_flexible(version: int) -> bool:
    return bool(request_module(Api.PRODUCE, version).TopicProduceData.__flexible__)


@lru_cache(maxsize=4096)
def _partition_head(version: int, partition: int) -> bytes:
    module = request_module(Api.PRODUCE, version)
    return _head(module.PartitionProduceData(index=partition, records=b""))


def _head(entity: Any) -> bytes:
    """``entity``, whose last field is empty, up to the length of that field."""
    flexible = entity.__flexible__
    return encode(entity).removesuffix(array_length(flexible, 0) + _no_tags(flexible))


@lru_cache(maxsize=4096)
def array_length(flexible: bool, length: int) -> bytes:
    """The length in front of an array or of bytes."""
    wire = io.BytesIO()
    if flexible:
        write_compact_array_length(wire, length)
    else:
        write_legacy_array_length(wire, i32(length))
    return wire.getvalue()


def text(flexible: bool, value: str) -> bytes:
    """A string that is not null, with its length in front."""
    encoded = value.encode()
    length = len(encoded)
    return (array_length(True, length) if flexible else length.to_bytes(2, "big")) + encoded


@cache
def _no_tags(flexible: bool) -> bytes:
    """The empty tagged fields at the end of a struct."""
    wire = io.BytesIO()
    if flexible:
        write_empty_tagged_fields(wire)
    return wire.getvalue()
