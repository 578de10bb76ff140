"""CreatePartitions. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.frames import EncodedPayload, encoded
from aioproducer.engine.protocol import Api, request_schema


@dataclass(frozen=True, slots=True)
class CreatePartitionsRequest:
    """Ask the controller for partitions. The answer is by topic, without a value."""

    topic: str
    total: int
    """The number of partitions that the topic has then."""
    assignment: Sequence[Sequence[int]] | None
    """The brokers of each new partition; None: the controller chooses."""
    timeout_ms: int
    validate_only: bool = False
    api: Api = Api.CREATE_PARTITIONS
    answered: bool = True

    def build(self, version: int) -> EncodedPayload:
        """The request in ``version``."""
        schema = request_schema(Api.CREATE_PARTITIONS)
        assignments = self.assignment
        topic = schema.CreatePartitionsTopic(
            name=self.topic,
            count=self.total,
            assignments=None
            if assignments is None
            else tuple(
                schema.CreatePartitionsAssignment(broker_ids=tuple(brokers))
                for brokers in assignments
            ),
        )
        request = schema.CreatePartitionsRequest(
            topics=(topic,),
            timeout_ms=self.timeout_ms,
            validate_only=self.validate_only,
        )
        return encoded(Api.CREATE_PARTITIONS, version, request)

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by topic."""
        found = {each.name: Answer.of(each) for each in response.results}
        return in_order((self.topic,), found)
