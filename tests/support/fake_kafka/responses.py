"""The responses of the scripted Kafka to Produce, Metadata and ApiVersions."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kio.static.primitive import i32Timedelta

from aioproducer.errors.broker import ErrorCode
from tests.support.fake_kafka.partition import Partition
from tests.support.fake_kafka.produce_answer import ProduceAnswer

if TYPE_CHECKING:
    from tests.support.fake_kafka.brokers import FakeKafka

UNKNOWN_TOPIC, NOT_LEADER, UNKNOWN_TOPIC_ID = 3, 6, 100


async def produce(
    kafka: FakeKafka, module: Any, broker: int, body: Any, answer: ProduceAnswer
) -> Any:
    """Write the records of a request, unless ``answer`` has another plan. None: no response."""
    if answer.hold is not None:
        await answer.hold.wait()
    if answer.cut or answer.silent:
        return None
    written = _Written(kafka, module, broker, body, answer)
    topics = tuple(written.topic(topic) for topic in body.topic_data)
    if answer.cut_after_writing or answer.silent_after_writing or not body.acks:
        return None
    endpoints: dict[str, Any] = {}
    if written.moved:
        endpoints["node_endpoints"] = tuple(
            module.NodeEndpoint(node_id=node, host=kafka.host, port=kafka.port(node))
            for node in written.moved
        )
    return module.ProduceResponse(
        responses=() if answer.leave_out else topics,
        throttle_time=milliseconds(answer.throttle_ms),
        **endpoints,
    )


@dataclass
class _Written:
    """One produce request on its way into the logs, and its results."""

    kafka: FakeKafka
    module: Any
    broker: int
    body: Any
    answer: ProduceAnswer
    moved: set[int] = field(default_factory=set)
    """The leaders that the response names."""

    def topic(self, topic: Any) -> Any:
        if hasattr(topic, "topic_id"):
            names = {identity: name for name, identity in self.kafka.topic_ids.items()}
            name = names.get(topic.topic_id)
        else:
            name = str(topic.name)
        return make(
            self.module.TopicProduceResponse,
            name=name,
            topic_id=getattr(topic, "topic_id", None),
            partition_responses=tuple(self._partition(name, each) for each in topic.partition_data),
        )

    def _partition(self, name: str | None, data: Any) -> Any:
        answer, module = self.answer, self.module
        code, offset, partition = self._append(name, data)
        code = answer.lie or code
        hint = {}
        if code == NOT_LEADER and self.kafka.hints and partition.leader != self.broker:
            self.moved.add(partition.leader)
            hint["current_leader"] = module.LeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.epoch
            )
        return make(
            module.PartitionProduceResponse,
            index=data.index,
            error_code=ErrorCode(code),
            base_offset=-1 if code else offset,
            record_errors=tuple(
                module.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=text)
                for index, text in (answer.record_errors or {}).items()
            ),
            error_message=answer.message,
            **hint,
        )

    def _append(self, name: str | None, data: Any) -> tuple[int, int, Partition]:
        """Error code, base offset, and the partition."""
        kafka, body = self.kafka, self.body
        if name is None:
            return UNKNOWN_TOPIC_ID, -1, Partition(self.broker)
        if data.index >= len(kafka.topics[name]):
            return UNKNOWN_TOPIC, -1, Partition(self.broker)
        partition = kafka.topics[name][data.index]
        code, offset = self.answer.error, -1
        if not code and partition.leader != self.broker:
            code = NOT_LEADER
        if not code and body.transactional_id is not None:
            code = kafka.transactions.admit(body, (name, data.index), data.records)
        if not code:
            before = len(partition.log)
            code, offset = partition.append(data.records)
            if body.transactional_id is not None:
                values = [record.value for record in partition.log[before:]]
                kafka.transactions.written(body, (name, data.index), values)
        return code, offset, partition


def api_versions(kafka: FakeKafka, module: Any, code: int) -> Any:
    keys = tuple(
        module.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in kafka.versions.items()
    )
    features: dict[str, Any] = {}
    if hasattr(module, "FinalizedFeatureKey"):
        level = kafka.transactions.level
        features["finalized_features_epoch"] = 1
        features["finalized_features"] = (
            module.FinalizedFeatureKey(
                name="transaction.version", max_version_level=level, min_version_level=level
            ),
        )
    return make(
        module.ApiVersionsResponse,
        error_code=ErrorCode(code),
        api_keys=keys,
        throttle_time=milliseconds(0),
        **features,
    )


def metadata(kafka: FakeKafka, module: Any, body: Any) -> Any:
    topics = []
    for asked in body.topics:
        name = str(asked.name)
        code = kafka.topic_errors.get(name, 0 if name in kafka.topics else UNKNOWN_TOPIC)
        partitions = [] if code else kafka.topics[name]
        topics.append(
            make(
                module.MetadataResponseTopic,
                error_code=ErrorCode(code),
                name=name,
                topic_id=None if code else kafka.topic_ids[name],
                partitions=tuple(
                    make(
                        module.MetadataResponsePartition,
                        error_code=ErrorCode(0),
                        partition_index=number,
                        leader_id=partition.leader,
                        leader_epoch=partition.epoch,
                        replica_nodes=(partition.leader,),
                        isr_nodes=(partition.leader,),
                    )
                    for number, partition in enumerate(partitions)
                ),
            )
        )
    brokers = tuple(
        module.MetadataResponseBroker(
            node_id=node, host=kafka.host, port=kafka.port(node), rack=kafka.racks.get(node)
        )
        for node in sorted(kafka.in_metadata)
    )
    return make(
        module.MetadataResponse,
        throttle_time=milliseconds(0),
        brokers=brokers,
        cluster_id=kafka.cluster_id,
        controller_id=1,
        topics=tuple(topics),
        error_code=ErrorCode.NONE,
    )


def make(kind: Any, **fields: Any) -> Any:
    """``kind`` with those of ``fields`` that its version of the protocol has."""
    return kind(**{name: fields[name] for name in kind.__dataclass_fields__ if name in fields})


def milliseconds(number: int) -> i32Timedelta:
    return i32Timedelta.parse(datetime.timedelta(milliseconds=number))
