"""The scripted Kafka with a controller, configurations and groups."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from kio.index import load_payload_module
from kio.static.constants import EntityType

from aioproducer.admin import Admin
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors.broker import ErrorCode
from tests.support.fake_kafka import FakeKafka
from tests.support.fake_kafka.responses import milliseconds
from tests.support.kio_messages import sample

UNKNOWN_TOPIC, NOT_LEADER, NOT_COORDINATOR, EXISTS, NOT_CONTROLLER, NO_GROUP = 3, 6, 16, 36, 41, 69
UNKNOWN_MEMBER, NON_EMPTY = 25, 68
EMPTY: dict[str, Any] = {"throttle_time": milliseconds(0)}


class AdminKafka(FakeKafka):
    """A Kafka that takes an Admin's requests."""

    def __init__(self, brokers: int = 3, **options: Any) -> None:
        versions = {int(api): ends for api, ends in SUPPORTED.items() if api is not Api.PRODUCE}
        versions |= {Api.METADATA: (4, 12), Api.API_VERSIONS: (0, 4), Api.DELETE_GROUPS: (0, 2)}
        super().__init__(brokers, versions={**versions, **options.pop("versions", {})}, **options)
        self.controller = 1
        self.announced: deque[int] = deque()
        """The controllers in the next metadata; then the real one."""
        self.codes: defaultdict[int, deque[int]] = defaultdict(deque)
        """Error codes for the first topic, partition or group of the next requests of an API."""
        self.forgetful: int = 0
        """The number of metadata requests that know no topic."""
        self.groups: dict[str, dict[tuple[str, int], int]] = {}
        self.too_late = False
        """True: no record is at or after a time that is asked for."""
        self.members: set[str] = set()
        """The groups that have members."""

    async def _respond(self, broker: int, api: int, answer: Any, body: Any, code: int = 0) -> Any:
        if api in self.mute:
            return None
        if api == Api.METADATA:
            return await self._metadata(broker, answer, body)
        handler = getattr(self, f"_{Api(api).name.lower()}", None)
        if handler is None:
            return await super()._respond(broker, api, answer, body, code)
        module = load_payload_module(api, body.__version__, EntityType.response)
        first = self.codes[api].popleft() if self.codes[api] else 0
        return handler(module, broker, body, first)

    async def _metadata(self, broker: int, answer: Any, body: Any) -> Any:
        hidden: dict[str, int] = {}
        if self.forgetful and body.topics:
            self.forgetful -= 1
            hidden = dict.fromkeys(self.topics, UNKNOWN_TOPIC)
        before, self.topic_errors = self.topic_errors, self.topic_errors | hidden
        try:
            if body.topics is None:
                part = load_payload_module(
                    Api.METADATA, body.__version__, EntityType.request
                ).MetadataRequestTopic
                every = tuple(sample(part, {"name": name}) for name in self.topics)
                body = replace(body, topics=every)
            response = await super()._respond(broker, Api.METADATA, answer, body)
        finally:
            self.topic_errors = before
        controller = self.announced.popleft() if self.announced else self.controller
        topics = tuple(
            replace(each, is_internal=str(each.name).startswith("__")) for each in response.topics
        )
        return replace(response, controller_id=controller, topics=topics)

    # --- the controller --------------------------------------------------------------------

    def _at_controller(self, broker: int, first: int, place: int) -> int:
        if broker != self.controller:
            return NOT_CONTROLLER
        return first if place == 0 else 0

    def _create_topics(self, module: Any, broker: int, body: Any, first: int) -> Any:
        results = []
        for place, topic in enumerate(body.topics):
            name = str(topic.name)
            code = self._at_controller(broker, first, place)
            if not code and name in self.topics:
                code = EXISTS
            count = max(1, topic.num_partitions, len(topic.assignments))
            if not code and not body.validate_only:
                self.create_topic(name, count)
            said = {"name": name, "error_code": ErrorCode(code), "num_partitions": count}
            results.append(sample(module.CreatableTopicResult, {**said, "error_message": None}))
        return module.CreateTopicsResponse(**EMPTY, topics=tuple(results))

    def _delete_topics(self, module: Any, broker: int, body: Any, first: int) -> Any:
        results = []
        for place, topic in enumerate(body.topics):
            name = str(topic.name)
            code = self._at_controller(broker, first, place)
            if not code and self.topics.pop(name, None) is None:
                code = UNKNOWN_TOPIC
            said = {"name": name, "error_code": ErrorCode(code), "error_message": None}
            results.append(sample(module.DeletableTopicResult, said))
        return module.DeleteTopicsResponse(**EMPTY, responses=tuple(results))

    def _create_partitions(self, module: Any, broker: int, body: Any, first: int) -> Any:
        (topic,) = body.topics
        code = self._at_controller(broker, first, 0)
        if not code:
            self.create_topic(str(topic.name), topic.count)
        said = {"name": topic.name, "error_code": ErrorCode(code), "error_message": None}
        return sample(module.CreatePartitionsResponse, said)

    # --- leaders ---------------------------------------------------------------------------

    def _delete_records(self, module: Any, broker: int, body: Any, first: int) -> Any:
        topics = []
        for topic in body.topics:
            results = []
            for each in topic.partitions:
                led = self.topics[str(topic.name)][each.partition_index].leader == broker
                code = ErrorCode(first if led else NOT_LEADER)
                said = {"partition_index": each.partition_index, "low_watermark": each.offset}
                kind = module.DeleteRecordsPartitionResult
                results.append(sample(kind, {**said, "error_code": code}))
            kind = module.DeleteRecordsTopicResult
            topics.append(kind(name=topic.name, partitions=tuple(results)))
        return module.DeleteRecordsResponse(**EMPTY, topics=tuple(topics))

    def _list_offsets(self, module: Any, broker: int, body: Any, first: int) -> Any:
        topics = []
        for topic in body.topics:
            results = []
            for each in topic.partitions:
                led = self.topics[str(topic.name)][each.partition_index].leader == broker
                code = ErrorCode(first if led else NOT_LEADER)
                offset = -1 if self.too_late and each.timestamp >= 0 else 100
                said = {"partition_index": each.partition_index, "offset": offset, "timestamp": -1}
                kind = module.ListOffsetsPartitionResponse
                results.append(sample(kind, {**said, "error_code": code, "leader_epoch": 1}))
            kind = module.ListOffsetsTopicResponse
            topics.append(kind(name=topic.name, partitions=tuple(results)))
        return module.ListOffsetsResponse(**EMPTY, topics=tuple(topics))

    # --- configurations --------------------------------------------------------------------

    def _describe_configs(self, module: Any, broker: int, body: Any, first: int) -> Any:
        results = []
        for each in body.resources:
            known = each.resource_type == 4 or str(each.resource_name) in self.topics
            value = {"name": "told.by", "value": str(broker), "config_source": 5}
            said = {
                "resource_type": each.resource_type,
                "resource_name": each.resource_name,
                "error_code": ErrorCode(first if known else UNKNOWN_TOPIC),
                "configs": (sample(module.DescribeConfigsResourceResult, value),),
            }
            results.append(sample(module.DescribeConfigsResult, said))
        return module.DescribeConfigsResponse(**EMPTY, results=tuple(results))

    def _incremental_alter_configs(self, module: Any, broker: int, body: Any, first: int) -> Any:
        kind = module.AlterConfigsResourceResponse
        results = tuple(
            sample(
                kind,
                {
                    "resource_type": each.resource_type,
                    "resource_name": each.resource_name,
                    "error_code": ErrorCode(first),
                },
            )
            for each in body.resources
        )
        return module.IncrementalAlterConfigsResponse(**EMPTY, responses=results)

    # --- groups ----------------------------------------------------------------------------

    def _list_groups(self, module: Any, broker: int, body: Any, first: int) -> Any:
        kind = module.ListedGroup
        mine = self.groups if broker == self.group_coordinator else ()
        groups = tuple(sample(kind, {"group_id": group}) for group in mine if not first)
        return module.ListGroupsResponse(**EMPTY, error_code=ErrorCode(first), groups=groups)

    def _of_group(self, broker: int, group: str, first: int) -> ErrorCode:
        if broker != self.group_coordinator:
            return ErrorCode(NOT_COORDINATOR)
        return ErrorCode(first or (0 if group in self.groups else NO_GROUP))

    def _describe_groups(self, module: Any, broker: int, body: Any, first: int) -> Any:
        groups = []
        for group in body.groups:
            code = self._of_group(broker, str(group), first)
            said = {"group_id": group, "error_code": code, "members": (), "group_state": "Empty"}
            groups.append(sample(module.DescribedGroup, {**said, "error_message": None}))
        return module.DescribeGroupsResponse(**EMPTY, groups=tuple(groups))

    def _consumer_group_describe(self, module: Any, broker: int, body: Any, first: int) -> Any:
        code = ErrorCode(first or NO_GROUP)
        said = {"group_id": body.group_ids[0], "error_code": code, "members": ()}
        return sample(module.ConsumerGroupDescribeResponse, {**said, "error_message": "none"})

    def _offset_fetch(self, module: Any, broker: int, body: Any, first: int) -> Any:
        (asked,) = body.groups
        code = self._of_group(broker, str(asked.group_id), first)
        code = ErrorCode.NONE if code == NO_GROUP else code
        topics: defaultdict[str, list[Any]] = defaultdict(list)
        for (topic, number), offset in self.groups.get(str(asked.group_id), {}).items():
            said = {"partition_index": number, "committed_offset": offset}
            topics[topic].append(sample(module.OffsetFetchResponsePartitions, said))
        group = module.OffsetFetchResponseGroup(
            group_id=asked.group_id,
            topics=tuple(
                module.OffsetFetchResponseTopics(name=topic, partitions=tuple(each))
                for topic, each in topics.items()
            ),
            error_code=code,
        )
        return module.OffsetFetchResponse(**EMPTY, groups=(group,))

    def _offset_commit(self, module: Any, broker: int, body: Any, first: int) -> Any:
        """The first error is that of the first partition; no member is one of the group."""
        group = str(body.group_id)
        whole = self._of_group(broker, group, 0)
        if whole in (0, NO_GROUP):
            whole = ErrorCode(UNKNOWN_MEMBER if group in self.members else 0)
        topics = []
        for topic in body.topics:
            results = []
            for each in topic.partitions:
                known = each.partition_index < len(self.topics.get(str(topic.name), ()))
                code = whole or ErrorCode(first if known else UNKNOWN_TOPIC)
                if not code:
                    offsets = self.groups.setdefault(group, {})
                    offsets[str(topic.name), each.partition_index] = each.committed_offset
                said = {"partition_index": each.partition_index, "error_code": ErrorCode(code)}
                results.append(sample(module.OffsetCommitResponsePartition, said))
                first = 0
            kind = module.OffsetCommitResponseTopic
            topics.append(kind(name=topic.name, partitions=tuple(results)))
        return module.OffsetCommitResponse(**EMPTY, topics=tuple(topics))

    def _offset_delete(self, module: Any, broker: int, body: Any, first: int) -> Any:
        group = str(body.group_id)
        whole = self._of_group(broker, group, 0)
        topics = []
        for topic in () if whole else body.topics:
            results = []
            for each in topic.partitions:
                if not first:
                    self.groups[group].pop((str(topic.name), each.partition_index), None)
                said = {"partition_index": each.partition_index, "error_code": ErrorCode(first)}
                results.append(sample(module.OffsetDeleteResponsePartition, said))
                first = 0
            kind = module.OffsetDeleteResponseTopic
            topics.append(kind(name=topic.name, partitions=tuple(results)))
        return module.OffsetDeleteResponse(**EMPTY, error_code=whole, topics=tuple(topics))

    def _delete_groups(self, module: Any, broker: int, body: Any, first: int) -> Any:
        results = []
        for group in map(str, body.groups_names):
            code = self._of_group(broker, group, first)
            if not code:
                code = ErrorCode(NON_EMPTY if group in self.members else 0)
            if not code:
                del self.groups[group]
            said = {"group_id": group, "error_code": code}
            results.append(sample(module.DeletableGroupResult, said))
        return module.DeleteGroupsResponse(**EMPTY, results=tuple(results))


@asynccontextmanager
async def admin_kafka(**options: Any) -> AsyncIterator[AdminKafka]:
    """A running scripted Kafka of three brokers; partition n of ``orders`` is led by n + 1."""
    kafka = AdminKafka(**{"topics": {"orders": 3}, **options})
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
