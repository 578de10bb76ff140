"""Produce requests, version by version. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.network.frames import EncodedPayload, UsualResponse
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.protocol.encoder import length, text
from aioproducer.engine.records.record_batch import Buffer
from aioproducer.engine.sender.produce_response import (
    FIRST_VERSION_WITH_TOPIC_IDS,
    ProduceResults,
    read_produce_response,
    read_usual_response,
    read_usual_response_of_several,
)
from aioproducer.model import TopicPartition, TransactionHandle

_LAST_VERSION_WITHOUT_ADDING: Final = 11
"""A later version takes its partitions into the transaction (KIP-890)."""
_PARTS_OF_PARTITION: Final = 4
_MOST_PLACES: Final = 4_096
""":attr:`_Template.places` has at most so many entries."""


EncodedBatch: TypeAlias = tuple[ProducerBatch, Buffer]
"""A batch and its bytes in this request."""


class ProduceRequest:
    """One batch for each of several partitions of one leader.

    ``topic_ids``: the ids of the topics in ``batches``. ``transaction``: the one that the batches
    are part of.
    """

    __slots__ = ("acks", "answered", "batches", "timeout_ms", "topic_ids", "transaction")

    api: Final = Api.PRODUCE

    def __init__(
        self,
        batches: Sequence[EncodedBatch],
        acks: int,
        timeout_ms: int,
        topic_ids: Mapping[str, UUID | None],
        transaction: TransactionHandle | None = None,
    ) -> None:
        self.batches = batches
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_ids = topic_ids
        self.transaction = transaction
        self.answered = acks != 0
        """False: the broker sends no response."""

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``, or the highest below it that needs no unknown topic id."""
        if version >= FIRST_VERSION_WITH_TOPIC_IDS and not all(self.topic_ids.values()):
            version = FIRST_VERSION_WITH_TOPIC_IDS - 1
        transactional_id = None
        if self.transaction is not None:
            transactional_id = self.transaction.transactional_id
            if self.transaction.version == 1:
                version = min(version, _LAST_VERSION_WITHOUT_ADDING)
        template = _template(version, transactional_id, self.acks, self.timeout_ms)
        if len(self.batches) != 1:
            return self._build_several(template)
        [(batch, data)] = self.batches
        topic_partition = batch.topic_partition
        topic_id = self.topic_ids[topic_partition.topic]
        known = template.places.get(topic_partition)
        if known is None or (known[0] is not topic_id and known[0] != topic_id):
            known = template.learn(topic_partition, topic_id)
        _, before, answer_begins = known
        parts = (before, array_length(template.flexible, len(data)), data, template.end)
        usual = template.flexible and self.answered
        read_usual = partial(read_usual_response, answer_begins) if usual else None
        return EncodedPayload(Api.PRODUCE, template.version, parts, read_usual)

    def _build_several(self, template: _Template) -> EncodedPayload:
        flexible, tags = template.flexible, template.tags
        by_topic: dict[str, list[Buffer]] = {}
        for batch, data in self.batches:
            topic, partition = batch.topic_partition
            by_topic.setdefault(topic, []).extend(
                (
                    _partition_head(template.version, partition),
                    array_length(flexible, len(data)),
                    data,
                    tags,
                )
            )
        parts: list[Buffer] = [template.head, array_length(flexible, len(by_topic))]
        for topic, partitions in by_topic.items():
            count = len(partitions) // _PARTS_OF_PARTITION
            parts += (
                template.topic_head(topic, self.topic_ids[topic]),
                array_length(flexible, count),
                *partitions,
                tags,
            )
        parts.append(tags)
        usual = self._reader_of_several(template)
        return EncodedPayload(Api.PRODUCE, template.version, parts, usual)

    def _reader_of_several(
        self, template: _Template
    ) -> Callable[[bytes], UsualResponse | None] | None:
        if not (template.flexible and self.answered):
            return None
        topics: dict[bytes, str] | None = None
        if template.has_ids:
            topics = {each.bytes: name for name, each in self.topic_ids.items() if each}
        partitions = [batch.topic_partition for batch, _ in self.batches]
        return partial(read_usual_response_of_several, partitions, topics)

    def read(self, response: Any) -> ProduceResults:
        """The content of the response. Raises :class:`ProtocolError` if it is invalid."""
        batches = {batch.topic_partition: batch for batch, _ in self.batches}
        return read_produce_response(response, batches, self.topic_ids)


class _Template:
    """The parts of requests that are the same in all requests of a producer in one version."""

    __slots__ = ("end", "flexible", "has_ids", "head", "places", "tags", "version")

    def __init__(
        self, version: int, transactional_id: str | None, acks: int, timeout_ms: int
    ) -> None:
        schema = request_schema(Api.PRODUCE)
        self.version = version
        self.flexible = schema.flexible(version)
        self.has_ids = version >= FIRST_VERSION_WITH_TOPIC_IDS
        self.tags = b"\0" if self.flexible else b""
        """The empty tagged fields at the end of a struct."""
        self.end = self.tags * 3
        """The end of a request with one batch: of its partition, its topic and itself."""
        request = schema.ProduceRequest(transactional_id, acks, timeout_ms)
        self.head = _head(request, version)
        """The request up to the number of its topics."""
        self.places: dict[TopicPartition, tuple[UUID | None, bytes, bytes]] = {}
        """By partition: the id of its topic, a request with one batch for it up to the length of
        the batch, and the response to it from its header's tags up to the partition's number."""

    def learn(
        self, topic_partition: TopicPartition, topic_id: UUID | None
    ) -> tuple[UUID | None, bytes, bytes]:
        """The entry of a partition in :attr:`places`."""
        topic, partition = topic_partition
        one = array_length(self.flexible, 1)
        place = (
            one + self.topic_head(topic, topic_id) + one + _partition_head(self.version, partition)
        )
        if len(self.places) >= _MOST_PLACES:
            self.places.clear()
        known = self.places[topic_partition] = topic_id, self.head + place, self.tags + place
        return known

    def topic_head(self, topic: str, topic_id: UUID | None) -> bytes:
        """The id or the name of a topic: no field is before it in any version."""
        if not self.has_ids:
            return text(topic, self.flexible)
        assert topic_id is not None, f"a request of version {self.version} names topics by ids"
        return topic_id.bytes


# Each constant part is encoded once. The variable part is last in its struct.


_template = lru_cache(maxsize=64)(_Template)
array_length = lru_cache(maxsize=4096)(length)


@lru_cache(maxsize=4096)
def _partition_head(version: int, partition: int) -> bytes:
    partition_data = request_schema(Api.PRODUCE).PartitionProduceData(partition)
    return _head(partition_data, version)


def _head(struct: Any, version: int) -> bytes:
    """``struct``, whose last field is empty, up to the length of that field."""
    schema = request_schema(Api.PRODUCE)
    flexible = schema.flexible(version)
    empty = array_length(flexible, 0) + (b"\0" if flexible else b"")
    return schema.encode(struct, version).removesuffix(empty)
