"""CreatePartitions. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kio.static.protocol import RequestPayload

from aioproducer.admin.requests.answer import Answer, in_order
from aioproducer.engine.network.apis import Api, request_module


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

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``."""
        module: Any = request_module(Api.CREATE_PARTITIONS, version)
        assignments = self.assignment
        topic = module.CreatePartitionsTopic(
            name=self.topic,
            count=self.total,
            assignments=None
            if assignments is None
            else tuple(
                module.CreatePartitionsAssignment(broker_ids=tuple(brokers))
                for brokers in assignments
            ),
        )
        request: RequestPayload = module.CreatePartitionsRequest(
            topics=(topic,),
            timeout=timedelta(milliseconds=self.timeout_ms),
            validate_only=self.validate_only,
        )
        return request

    def read(self, response: Any) -> Mapping[str, Answer]:
        """The answer by topic."""
        found = {str(each.name): Answer.of(each) for each in response.results}
        return in_order((self.topic,), found)
