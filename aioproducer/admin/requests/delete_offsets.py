"""OffsetDelete: forget offsets of a group (KIP-496). No I/O."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.engine.transactions.requests import by_topic
from aioproducer.model import TopicPartition


@dataclass(frozen=True, slots=True)
class DeleteOffsetsRequest:
    """Ask a group's coordinator to forget offsets.

    The answer is about the group. Its value has the answers by partition, without values.
    """

    group: str
    partitions: Collection[TopicPartition]
    api: Api = Api.OFFSET_DELETE
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.OFFSET_DELETE)
        request = schema.OffsetDeleteRequest(
            group_id=self.group,
            topics=tuple(
                schema.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        schema.OffsetDeleteRequestPartition(partition_index=number)
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(self.partitions).items()
            ),
        )
        return encoded(Api.OFFSET_DELETE, version, request)

    def read(self, response: Any) -> Answer:
        """The answer. Raises :class:`ProtocolError` if a partition is missing."""
        if response.error_code:
            return Answer(response.error_code)
        found = {
            TopicPartition(topic.name, each.partition_index): Answer(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        return Answer(value=in_order(self.partitions, found))
