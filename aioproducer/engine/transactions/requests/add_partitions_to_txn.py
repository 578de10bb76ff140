"""AddPartitionsToTxn: add partitions to the transaction (protocol version 1). No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from aioproducer.engine.transactions.requests.coordinator_request import (
    BuildContext,
    CoordinatorRequest,
    by_topic,
)
from aioproducer.engine.transactions.requests.reaction import Reaction, Reactions
from aioproducer.engine.transactions.requests.response import Response, deciding_error
from aioproducer.errors import InvalidTxnStateError
from aioproducer.model import TopicPartition


@dataclass(frozen=True, slots=True)
class AddPartitionsToTxn(CoordinatorRequest):
    """Add partitions to the transaction, before their first batch is sent."""

    partitions: frozenset[TopicPartition]

    api_key: ClassVar[int] = 24
    reactions: ClassVar[Reactions] = {InvalidTxnStateError: Reaction.FATAL}
    otherwise: ClassVar[Reaction] = Reaction.ABORT

    def build(self, context: BuildContext) -> Any:
        """The request as a message."""
        schema = context.schema
        return schema.AddPartitionsToTxnRequest(
            **context.producer_fields("v3_and_below_"),
            v3_and_below_topics=tuple(
                schema.AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                for topic, numbers in by_topic(self.partitions).items()
            ),
        )

    def read(self, response: Any) -> Response:
        """The error code that decides."""
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        return deciding_error(self.partitions, codes)
