"""DeleteRecords. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.model import TopicPartition

_OFFSET_OUT_OF_RANGE: Final = 1


@dataclass(frozen=True, slots=True)
class DeleteRecordsRequest:
    """Ask a leader to delete records. The answers are by partition, with its first offset then."""

    offsets: Mapping[TopicPartition, int]
    """The offset of the first record to keep; -1: none is kept."""
    timeout_ms: int
    api: Api = Api.DELETE_RECORDS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.DELETE_RECORDS)
        topics: defaultdict[str, list[Any]] = defaultdict(list)
        for (topic, partition), offset in self.offsets.items():
            topics[topic].append(
                schema.DeleteRecordsPartition(partition_index=partition, offset=offset)
            )
        request = schema.DeleteRecordsRequest(
            topics=tuple(
                schema.DeleteRecordsTopic(name=topic, partitions=tuple(partitions))
                for topic, partitions in topics.items()
            ),
            timeout_ms=self.timeout_ms,
        )
        return encoded(Api.DELETE_RECORDS, version, request)

    def read(self, response: Any) -> Mapping[TopicPartition, Answer]:
        """The answers by partition."""
        found = {
            TopicPartition(topic.name, each.partition_index): _answer(each)
            for topic in response.topics
            for each in topic.partitions
        }
        return in_order(self.offsets, found)


def _answer(said: Any) -> Answer:
    if said.error_code == _OFFSET_OUT_OF_RANGE:
        return Answer(_OFFSET_OUT_OF_RANGE, "the partition ends before the offset")
    return Answer.of(said, said.low_watermark)
