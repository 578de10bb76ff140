"""The scripted Kafka with a controller, groups, and topics that brokers learn of later."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, Final

from aioproducer.admin import Admin
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.simulation.kafka.messages import Request
from aioproducer.testing.simulation.kafka.requests.apis import RANGES
from tests.support.fake_kafka import Answer, FakeKafka

UNKNOWN_TOPIC, NOT_LEADER, NOT_COORDINATOR, NOT_CONTROLLER = 3, 6, 16, 41
RECORDS: Final = [b"v"] * 100
_AT_CONTROLLER: Final = (Api.CREATE_TOPICS, Api.DELETE_TOPICS, Api.CREATE_PARTITIONS)
_BY_ROW: Final = (Api.CREATE_TOPICS, Api.OFFSET_COMMIT)
_OF_CONFIGS: Final[Mapping[int, str]] = {
    Api.DESCRIBE_CONFIGS: "results",
    Api.INCREMENTAL_ALTER_CONFIGS: "responses",
}
_BROKER: Final = 4
_TOLD_BY: Final = {
    "name": "told.by",
    "read_only": True,
    "config_source": 4,
    "is_sensitive": False,
    "synonyms": [],
    "documentation": None,
}


class AdminKafka(FakeKafka):
    """A Kafka that takes an Admin's requests.

    The error of an answer to CreateTopics or OffsetCommit is that of the first topic or partition
    alone.
    """

    def __init__(self, brokers: int = 3, **options: Any) -> None:
        versions = {api: ends for api, ends in RANGES.items() if api is not Api.PRODUCE}
        versions |= {Api.METADATA: (4, 12), Api.API_VERSIONS: (0, 4)}
        super().__init__(brokers, versions={**versions, **options.pop("versions", {})}, **options)
        self.controller = 1
        self.announced: deque[int] = deque()
        """The controllers in the next metadata; then the real one."""
        self.forgetful: int = 0
        """The number of metadata requests that know no topic."""

    # --- groups ----------------------------------------------------------------------------

    @property
    def groups(self) -> Mapping[str, Mapping[tuple[str, int], int]]:
        """The offsets of each group."""
        known = self.model.coordinators.groups.coordinated_by(self.group_coordinator, monotonic())
        return {
            each.group_id: {
                (where.topic, where.partition): at.offset
                for where, at in self.model.committed_offsets(each.group_id).items()
            }
            for each in known
        }

    def add_group(self, group: str, offsets: Mapping[tuple[str, int], int] | None = None) -> None:
        """A group without members."""
        groups = self.model.coordinators.groups
        groups._new_classic(group)
        made = {TopicPartition(*at): OffsetAndMetadata(n) for at, n in (offsets or {}).items()}
        groups.offsets.commit(group, made)

    def join(self, group: str) -> None:
        """Let a member join a group."""
        body = request_schema(Api.CONSUMER_GROUP_HEARTBEAT).of(
            {
                "group_id": group,
                "member_id": "somebody",
                "rebalance_timeout_ms": 60_000,
                "subscribed_topic_names": ["orders"],
                "topic_partitions": [],
            },
            0,
        )
        request = Request(Api.CONSUMER_GROUP_HEARTBEAT, 0, 1, None, body)
        assert not self._ask(self.group_coordinator, request)["error_code"]

    # --- answers ---------------------------------------------------------------------------

    def _fields(self, broker: int, request: Request, answer: Answer) -> Any:
        if request.api in _AT_CONTROLLER and broker != self.controller:
            answer = Answer(NOT_CONTROLLER)
        elif request.api in _BY_ROW and answer.error:
            first, others = _first_and_others(request.body)
            refused = self._ask(broker, request._replace(body=first), answer.error)
            done = self._ask(broker, request._replace(body=others))
            return {**done, "topics": [*refused["topics"], *done["topics"]]}
        fields = super()._fields(broker, request, answer)
        for row in fields[_OF_CONFIGS[request.api]] if request.api in _OF_CONFIGS else ():
            if row["resource_type"] == _BROKER and not answer.error:
                row["error_code"] = ErrorCode.NONE  # the model has no settings of brokers
                if request.api == Api.DESCRIBE_CONFIGS:
                    row["configs"] = [{**_TOLD_BY, "value": str(broker)}]
        return fields

    def _metadata(self, request: Request, fields: Any) -> Any:
        before = self.topic_errors
        if self.forgetful and request.body.topics:
            self.forgetful -= 1
            self.topic_errors = before | dict.fromkeys(self.topics, UNKNOWN_TOPIC)
        controller = self.announced.popleft() if self.announced else self.controller
        fields = {**super()._metadata(request, fields), "controller_id": controller}
        self.topic_errors = before
        return fields


def _first_and_others(body: Any) -> tuple[Any, Any]:
    """A request for the first topic or partition, and one for the others."""
    first, *others = body.topics
    if hasattr(first, "partitions"):
        kept, *more = first.partitions
        others = [first._replace(partitions=tuple(more))] * bool(more) + others
        first = first._replace(partitions=(kept,))
    return body._replace(topics=(first,)), body._replace(topics=tuple(others))


@asynccontextmanager
async def admin_kafka(**options: Any) -> AsyncIterator[AdminKafka]:
    """A running scripted Kafka of three brokers; partition n of ``orders`` is led by n + 1.

    Each partition of it has :data:`RECORDS`.
    """
    kafka = AdminKafka(**{"topics": {"orders": 3}, **options})
    for partition in range(3):
        kafka.write("orders", partition, *RECORDS)
    await kafka.start()
    try:
        yield kafka
    finally:
        await kafka.stop()


def admin_of(kafka: FakeKafka, **options: Any) -> Admin:
    """An Admin that retries at once."""
    return Admin(
        bootstrap_servers=kafka.bootstrap_servers,
        **{"retry_backoff_ms": 1, "retry_backoff_max_ms": 2, "reconnect_backoff_ms": 1, **options},
    )
