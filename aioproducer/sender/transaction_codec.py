"""The questions to coordinators as Kafka's requests, and their answers. No I/O."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kio.static.protocol import RequestPayload

from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from aioproducer.network.apis import Api, request_module
from aioproducer.transactions.questions import (
    AddOffsets,
    AddPartitions,
    Answer,
    CommitOffsets,
    EndTransaction,
    FetchOffsets,
    FindCoordinator,
    InitProducerId,
    Question,
)

_FIRST_FIND_OF_MANY: Final = 4
_FIRST_FETCH_OF_MANY: Final = 8
_FIRST_INIT_THAT_KEEPS: Final = 3
_LAST_END_WITHOUT_EPOCH: Final = 4
_LAST_OFFSETS_WITHOUT_ADDING: Final = 4
_FIRST_OFFSETS_WITH_MEMBER: Final = 3
_FIRST_OFFSETS_WITH_LEADER_EPOCH: Final = 2
_NOT_ATTEMPTED: Final = 55
_NONE: Final = -1

_APIS: Final[Mapping[type[Question], Api]] = {
    FindCoordinator: Api.FIND_COORDINATOR,
    InitProducerId: Api.INIT_PRODUCER_ID,
    AddPartitions: Api.ADD_PARTITIONS_TO_TXN,
    AddOffsets: Api.ADD_OFFSETS_TO_TXN,
    CommitOffsets: Api.TXN_OFFSET_COMMIT,
    EndTransaction: Api.END_TXN,
    FetchOffsets: Api.OFFSET_FETCH,
}


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """A question of a transactional producer, on the wire."""

    question: Question
    handle: TransactionHandle
    timeout_ms: int
    """``transaction_timeout_ms``."""
    answered: bool = True

    @property
    def api(self) -> Api:
        """The request's kind."""
        return _APIS[type(self.question)]

    def build(self, version: int) -> RequestPayload:
        """The request in ``version``, or the highest below it that version 1 of the protocol has.

        Raises :class:`UnsupportedVersionError` where the broker is too old for the question.
        """
        if self.handle.version == 1 and self.api is Api.END_TXN:
            version = min(version, _LAST_END_WITHOUT_EPOCH)
        if self.handle.version == 1 and self.api is Api.TXN_OFFSET_COMMIT:
            version = min(version, _LAST_OFFSETS_WITHOUT_ADDING)
        module: Any = request_module(self.api, version)
        request: RequestPayload
        match self.question:
            case FindCoordinator(coordinator):
                key = coordinator.key
                keys = {"coordinator_keys": (key,)}
                request = module.FindCoordinatorRequest(
                    key_type=coordinator.type,
                    **(keys if version >= _FIRST_FIND_OF_MANY else {"key": key}),
                )
            case InitProducerId(keep):
                request = module.InitProducerIdRequest(
                    transactional_id=self.handle.transactional_id,
                    transaction_timeout=datetime.timedelta(milliseconds=self.timeout_ms),
                    **self._kept(version) if keep else {},
                )
            case AddPartitions(partitions):
                request = module.AddPartitionsToTxnRequest(
                    **self._asker("v3_and_below_"),
                    v3_and_below_topics=tuple(
                        module.AddPartitionsToTxnTopic(name=topic, partitions=tuple(numbers))
                        for topic, numbers in _by_topic(partitions).items()
                    ),
                )
            case AddOffsets(group_id):
                request = module.AddOffsetsToTxnRequest(**self._asker(), group_id=group_id)
            case CommitOffsets():
                request = self._offsets(module, version, self.question)
            case EndTransaction(committed):
                request = module.EndTxnRequest(**self._asker(), committed=committed)
            case FetchOffsets():
                request = _fetch(module, version, self.question)
        return request

    def read(self, response: Any) -> Answer:
        """The content of the response. Raises :class:`ProtocolError` if it can't be true."""
        return read_answer(self.question, response)

    def _asker(self, prefix: str = "") -> dict[str, Any]:
        return {
            f"{prefix}transactional_id": self.handle.transactional_id,
            f"{prefix}producer_id": self.handle.producer_id,
            f"{prefix}producer_epoch": self.handle.epoch,
        }

    def _kept(self, version: int) -> dict[str, Any]:
        if version < _FIRST_INIT_THAT_KEEPS:
            raise UnsupportedVersionError(
                f"transactional id {self.handle.transactional_id!r}: a new epoch is needed after "
                "the transaction that failed, and the broker is too old to give it (KIP-360, Kafka "
                "2.5): close the producer and make another one"
            )
        return {"producer_id": self.handle.producer_id, "producer_epoch": self.handle.epoch}

    def _offsets(self, module: Any, version: int, question: CommitOffsets) -> RequestPayload:
        group = question.group
        member: dict[str, Any] = {}
        if version >= _FIRST_OFFSETS_WITH_MEMBER:
            member = {
                "generation_id": group.generation_id,
                "member_id": group.member_id,
                "group_instance_id": group.group_instance_id,
            }
        elif group[1:] != ConsumerGroupMetadata(group.group_id)[1:]:
            raise UnsupportedVersionError(
                f"the broker is too old to check the member of group {group.group_id!r} (KIP-447, "
                "Kafka 2.5): give the group's id alone, and use one transactional id for each "
                "partition that is consumed"
            )
        topics = []
        for topic, numbers in _by_topic(question.offsets).items():
            partitions = []
            for number in numbers:
                offset = question.offsets[TopicPartition(topic, number)]
                epoch: dict[str, Any] = {}
                if version >= _FIRST_OFFSETS_WITH_LEADER_EPOCH:
                    known = offset.leader_epoch is not None
                    epoch = {"committed_leader_epoch": offset.leader_epoch if known else -1}
                partitions.append(
                    module.TxnOffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=offset.offset,
                        committed_metadata=offset.metadata,
                        **epoch,
                    )
                )
            topics.append(
                module.TxnOffsetCommitRequestTopic(name=topic, partitions=tuple(partitions))
            )
        request: RequestPayload = module.TxnOffsetCommitRequest(
            **self._asker(), group_id=group.group_id, **member, topics=tuple(topics)
        )
        return request


def _fetch(module: Any, version: int, question: FetchOffsets) -> RequestPayload:
    many = version >= _FIRST_FETCH_OF_MANY
    kind = module.OffsetFetchRequestTopics if many else module.OffsetFetchRequestTopic
    asked: dict[str, Any] = {
        "group_id": question.group_id,
        "topics": tuple(
            kind(name=topic, partition_indexes=tuple(numbers))
            for topic, numbers in _by_topic(question.partitions).items()
        ),
    }
    if many:
        asked = {"groups": (module.OffsetFetchRequestGroup(**asked),)}
    request: RequestPayload = module.OffsetFetchRequest(**asked, require_stable=True)
    return request


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def read_answer(question: Question, response: Any) -> Answer:
    """The answer in ``response``, kio's for the request of ``question`` in any version.

    Raises :class:`ProtocolError` if it leaves out something that was asked for: it would be taken
    for done.
    """
    match question:
        case FindCoordinator(coordinator):
            return _found(coordinator.key, response)
        case AddPartitions(partitions):
            added = {
                TopicPartition(topic.name, each.partition_index): int(each.partition_error_code)
                for topic in response.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            }
            return _worst(partitions, added)
        case CommitOffsets(offsets):
            written = {
                TopicPartition(topic.name, each.partition_index): int(each.error_code)
                for topic in response.topics
                for each in topic.partitions
            }
            return _worst(offsets, written)
        case FetchOffsets(group_id, partitions):
            if not hasattr(response, "groups"):
                return _offsets(partitions, response)
            for group in response.groups:
                if group.group_id == group_id:
                    return _offsets(partitions, group)
            raise ProtocolError(f"an answer without group {group_id!r}")
        case _:
            answer = Answer(
                int(response.error_code),
                producer_id=int(getattr(response, "producer_id", _NONE)),
                epoch=int(getattr(response, "producer_epoch", _NONE)),
            )
            expected = isinstance(question, InitProducerId) or answer.producer_id != _NONE
            if expected and not answer.error_code and min(answer.producer_id, answer.epoch) < 0:
                raise ProtocolError(
                    f"producer id {answer.producer_id}, epoch {answer.epoch} can't be assigned"
                )
            return answer


def _found(key: str, response: Any) -> Answer:
    several = getattr(response, "coordinators", (response,))
    for found in several:
        if getattr(found, "key", key) == key:
            break
    else:
        raise ProtocolError(f"an answer without the coordinator of {key!r}")
    code, message = int(found.error_code), getattr(found, "error_message", None)
    if code:
        return Answer(code, message)
    node = Node(int(found.node_id), found.host, int(found.port))
    if node.id < 0 or not node.host:
        raise ProtocolError(f"{node} with id {node.id} can't be the coordinator of {key!r}")
    return Answer(message=message, node=node)


def _offsets(asked: Collection[TopicPartition], group: Any) -> Answer:
    if group.error_code:
        return Answer(int(group.error_code))
    found = {
        TopicPartition(topic.name, each.partition_index): each
        for topic in group.topics
        for each in topic.partitions
    }
    worst = _worst(asked, {place: int(each.error_code) for place, each in found.items()})
    if worst.error_code:
        return worst
    return Answer(
        offsets={
            place: OffsetAndMetadata(
                int(each.committed_offset),
                each.metadata or "",
                int(each.committed_leader_epoch) if each.committed_leader_epoch >= 0 else None,
            )
            for place, each in found.items()
            if each.committed_offset >= 0 and place in asked
        }
    )


def _worst(asked: Collection[TopicPartition], codes: Mapping[TopicPartition, int]) -> Answer:
    """The answer with the first error that is a partition's own, not that of another one."""
    for place in asked:
        if place not in codes:
            raise ProtocolError(f"an answer without {place}")
    wrong = {place: code for place, code in codes.items() if code and place in asked}
    for place, code in wrong.items():
        if code != _NOT_ATTEMPTED:
            return Answer(code, place=place)
    return Answer(_NOT_ATTEMPTED if wrong else 0)
