"""The requests to coordinators in every version, and coordinators that move or load."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from aioproducer.engine.network.connection_states import NotSentError
from aioproducer.engine.protocol import Api, request_schema, response_schema
from aioproducer.engine.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    Coordinator,
    CoordinatorType,
    EndTxn,
    FindCoordinator,
    OffsetFetch,
    Reaction,
    Response,
    TxnOffsetCommit,
)
from aioproducer.engine.transactions.transaction import TransactionState
from aioproducer.errors import ProducerError, ProtocolError, UnsupportedVersionError, kafka_error
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)
from tests.support.world import BUMP, FENCE, PAYMENTS
from tests.unit.transactions.wire import (
    CONSUMED,
    EVENT,
    FIRST,
    MEMBER,
    ONE,
    SECOND,
    TWO,
    asker,
    built,
    each_version,
    over_the_wire,
    responses,
    throttle,
)
from tests.unit.transactions.world import (
    COMMIT,
    CONCURRENT,
    INVALID_MAPPING,
    LOADING,
    LOST,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    OTHER,
    VERSIONS,
    TransactionWorld,
    opened,
)


# --- FindCoordinator -------------------------------------------------------------------------
@each_version(Api.FIND_COORDINATOR)
@pytest.mark.parametrize("kind", CoordinatorType)
def test_a_coordinator_is_asked_for_by_kind_and_key(version: int, kind: CoordinatorType) -> None:
    read = built(FindCoordinator(Coordinator(kind, "payments")), version)
    assert int(read.__version__) == version
    assert read.key_type == kind.value
    assert (read.coordinator_keys if version >= 4 else (read.key,)) == ("payments",)


@each_version(Api.FIND_COORDINATOR)
@pytest.mark.parametrize("code", [0, 15])
def test_the_coordinator_that_was_found(version: int, code: int) -> None:
    parts = responses(Api.FIND_COORDINATOR, version)
    said: dict[str, Any] = {
        "error_code": ErrorCode(code),
        "error_message": "wait" if code else None,
        "node_id": 3,
        "host": "::1",
        "port": 9093,
    }
    if version >= 4:
        other = parts.Coordinator(key="payments", **{**said, "node_id": 9})
        said = {"coordinators": (other, parts.Coordinator(key="readers", **said))}
    kind = parts.FindCoordinatorResponse
    find = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))
    answer = find.read(over_the_wire(kind(**throttle(kind), **said)))
    expected = Response(code, "wait") if code else Response(node=Node(3, "::1", 9093))
    assert answer == expected
    assert type(answer.error_code) is int


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize("keys", [(), ("payments",)])
def test_an_answer_without_the_coordinator_is_none(version: int, keys: tuple[str, ...]) -> None:
    parts = responses(Api.FIND_COORDINATOR, version)
    kind = parts.FindCoordinatorResponse
    request = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))
    there = {"error_code": ErrorCode(0), "error_message": None, "node_id": 3, "host": "h"}
    found = tuple(parts.Coordinator(key=key, **there, port=1) for key in keys)
    said = over_the_wire(kind(**throttle(kind), coordinators=found))
    with pytest.raises(ProtocolError, match="'readers'"):
        request.read(said)


@pytest.mark.parametrize(("number", "host"), [(-1, "h"), (3, "")])
def test_a_coordinator_that_cannot_be(number: int, host: str) -> None:
    kind = responses(Api.FIND_COORDINATOR, 3).FindCoordinatorResponse
    said = {"error_code": ErrorCode(0), "error_message": None, "node_id": number, "host": host}
    request = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))
    with pytest.raises(ProtocolError, match="can't be the coordinator"):
        request.read(over_the_wire(kind(**throttle(kind), **said, port=1)))


# --- InitProducerId --------------------------------------------------------------------------
@each_version(Api.INIT_PRODUCER_ID)
def test_the_first_identity_is_asked_for_by_name(version: int) -> None:
    read = built(FENCE, version)
    assert int(read.__version__) == version
    assert read.transactional_id == "payments"
    assert read.transaction_timeout == datetime.timedelta(seconds=60)
    if version >= 3:
        assert (read.producer_id, read.producer_epoch) == (-1, -1)


@each_version(Api.INIT_PRODUCER_ID)
def test_a_new_epoch_is_asked_for_with_the_old_one(version: int) -> None:
    if version >= 3:
        read = built(BUMP, version)
        assert asker(read) == ("payments", 77, 3)
        return
    with pytest.raises(UnsupportedVersionError, match=r"'payments'.*KIP-360, Kafka 2.5"):
        built(BUMP, version)


@each_version(Api.INIT_PRODUCER_ID)
def test_the_identity_that_was_assigned(version: int) -> None:
    kind = responses(Api.INIT_PRODUCER_ID, version).InitProducerIdResponse
    said = kind(
        **throttle(kind), error_code=ErrorCode.NONE, producer_id=2**40, producer_epoch=2**15 - 1
    )
    answer = FENCE.read(over_the_wire(said))
    assert answer == Response(producer_id=2**40, epoch=2**15 - 1)


# --- AddPartitionsToTxn ----------------------------------------------------------------------
@each_version(Api.ADD_PARTITIONS_TO_TXN)
def test_partitions_are_taken_in_by_topic(version: int) -> None:
    read = built(
        AddPartitionsToTxn(frozenset({ONE, TWO, EVENT}), producer=PAYMENTS), version, FIRST
    )
    assert int(read.__version__) == version
    assert asker(read, "v3_and_below_") == ("payments", 77, 3)
    topics = {each.name: tuple(each.partitions) for each in read.v3_and_below_topics}
    assert topics == {"orders": (0, 2), "events": (5,)}


def added(version: int, codes: Mapping[TopicPartition, int]) -> Response:
    parts = responses(Api.ADD_PARTITIONS_TO_TXN, version)
    kind = parts.AddPartitionsToTxnResponse
    said = kind(
        **throttle(kind),
        results_by_topic_v3_and_below=tuple(
            parts.AddPartitionsToTxnTopicResult(
                name=place.topic,
                results_by_partition=(
                    parts.AddPartitionsToTxnPartitionResult(
                        partition_index=place.partition, partition_error_code=ErrorCode(code)
                    ),
                ),
            )
            for place, code in codes.items()
        ),
    )
    return AddPartitionsToTxn(frozenset(codes), producer=PAYMENTS).read(over_the_wire(said))


@each_version(Api.ADD_PARTITIONS_TO_TXN)
def test_of_several_errors_the_one_that_is_the_cause_decides(version: int) -> None:
    assert added(version, {ONE: 0, TWO: 0}) == Response()
    assert added(version, {ONE: 0, TWO: 51}) == Response(51, partition=TWO)
    assert added(version, {ONE: 55, TWO: 29}) == Response(29, partition=TWO)
    assert added(version, {EVENT: 3, ONE: 55, TWO: 29}) == Response(3, partition=EVENT)
    assert added(version, {ONE: 55, TWO: 55}) == Response(55), "whose, it does not say"


# --- AddOffsetsToTxn -------------------------------------------------------------------------
@each_version(Api.ADD_OFFSETS_TO_TXN)
def test_a_group_is_taken_in(version: int) -> None:
    read = built(AddOffsetsToTxn("readers", producer=PAYMENTS), version, FIRST)
    assert int(read.__version__) == version
    assert (asker(read), read.group_id) == (("payments", 77, 3), "readers")
    kind = responses(Api.ADD_OFFSETS_TO_TXN, version).AddOffsetsToTxnResponse
    said = kind(**throttle(kind), error_code=ErrorCode.NOT_COORDINATOR)
    assert AddOffsetsToTxn("readers", producer=PAYMENTS).read(over_the_wire(said)) == Response(16)


# --- TxnOffsetCommit -------------------------------------------------------------------------
@each_version(Api.TXN_OFFSET_COMMIT)
def test_consumed_offsets(version: int) -> None:
    group = MEMBER if version >= 3 else ConsumerGroupMetadata("readers")
    read = built(TxnOffsetCommit(CONSUMED, group, producer=PAYMENTS), version)
    assert int(read.__version__) == version
    assert (asker(read), read.group_id) == (("payments", 77, 3), "readers")
    if version >= 3:
        member = (read.generation_id, read.member_id, read.group_instance_id)
        assert member == (9, "member-1", "static-1")
    found = {
        TopicPartition(topic.name, each.partition_index): OffsetAndMetadata(
            each.committed_offset,
            each.committed_metadata,
            each.committed_leader_epoch if version >= 2 else None,
        )
        for topic in read.topics
        for each in topic.partitions
    }
    epochs = {TWO: 8, ONE: -1, EVENT: 0} if version >= 2 else dict.fromkeys(CONSUMED)
    assert found == {
        place: offset._replace(leader_epoch=epochs[place]) for place, offset in CONSUMED.items()
    }


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    "group",
    [
        MEMBER,
        ConsumerGroupMetadata("readers", 1),
        ConsumerGroupMetadata("readers", -1, "member-1"),
        ConsumerGroupMetadata("readers", -1, "", "static-1"),
    ],
)
def test_an_old_broker_can_t_check_the_member(version: int, group: ConsumerGroupMetadata) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"'readers' \(KIP-447, Kafka 2.5\)"):
        built(TxnOffsetCommit(CONSUMED, group, producer=PAYMENTS), version, FIRST)


@each_version(Api.TXN_OFFSET_COMMIT)
def test_the_group_s_answer(version: int) -> None:
    parts = responses(Api.TXN_OFFSET_COMMIT, version)
    kind = parts.TxnOffsetCommitResponse

    def answered(codes: Mapping[TopicPartition, int]) -> Response:
        said = kind(
            **throttle(kind),
            topics=tuple(
                parts.TxnOffsetCommitResponseTopic(
                    name=place.topic,
                    partitions=(
                        parts.TxnOffsetCommitResponsePartition(
                            partition_index=place.partition, error_code=ErrorCode(code)
                        ),
                    ),
                )
                for place, code in codes.items()
            ),
        )
        return TxnOffsetCommit(CONSUMED, MEMBER, producer=PAYMENTS).read(over_the_wire(said))

    assert answered({ONE: 0, TWO: 0, EVENT: 0}) == Response()
    assert answered({ONE: 0, TWO: 22, EVENT: 0}) == Response(22, partition=TWO)
    with pytest.raises(ProtocolError, match=f"not mention {TWO}"):
        answered({ONE: 0, EVENT: 0})


IDS = {topic: UUID(int=number) for number, topic in enumerate(sorted({p[0] for p in CONSUMED}), 1)}
BY_ID = TxnOffsetCommit(CONSUMED, MEMBER, IDS, producer=PAYMENTS)


def sent(request: TxnOffsetCommit, version: int, handle: TransactionHandle) -> tuple[int, Any]:
    """The version that leaves for a broker that speaks ``version``, and the message."""
    payload = replace(request, producer=handle).build(version)
    data = b"".join(payload.parts)
    message, end = request_schema(payload.api).decode(data, 0, payload.version)
    assert end == len(data)
    return payload.version, message


def test_offsets_of_topics_by_their_ids() -> None:
    version, message = sent(BY_ID, 6, SECOND)
    assert version == 6
    assert {
        (topic.topic_id, each.partition_index): each.committed_offset
        for topic in message.topics
        for each in topic.partitions
    } == {(IDS[place.topic], place.partition): each.offset for place, each in CONSUMED.items()}


@pytest.mark.parametrize(
    ("request_", "handle", "highest"),
    [
        pytest.param(
            TxnOffsetCommit(CONSUMED, MEMBER, producer=PAYMENTS), SECOND, 5, id="an unknown id"
        ),
        pytest.param(BY_ID, FIRST, 4, id="the first protocol"),
    ],
)
def test_offsets_of_topics_by_their_names(
    request_: TxnOffsetCommit, handle: TransactionHandle, highest: int
) -> None:
    version, message = sent(request_, 6, handle)
    assert version == highest
    assert {topic.name for topic in message.topics} == {place.topic for place in CONSUMED}


def test_the_answer_about_ids() -> None:
    schema = response_schema(Api.TXN_OFFSET_COMMIT)

    def answered(codes: Mapping[TopicPartition, int], ids: Mapping[str, UUID] = IDS) -> Response:
        topics = tuple(
            schema.TxnOffsetCommitResponseTopic(
                topic_id=ids[place.topic],
                partitions=(schema.TxnOffsetCommitResponsePartition(place.partition, code),),
            )
            for place, code in codes.items()
        )
        data = schema.encode(schema.TxnOffsetCommitResponse(topics=topics), 6)
        return BY_ID.read(schema.decode(data, 0, 6)[0])

    assert answered({ONE: 0, TWO: 0, EVENT: 0}) == Response()
    gone = answered({ONE: 0, TWO: 100, EVENT: 0})
    assert gone == Response(100, partition=TWO)
    with pytest.raises(ProtocolError, match="not mention"):
        answered({ONE: 0, TWO: 0, EVENT: 0}, dict.fromkeys(IDS, UUID(int=99)))


# --- OffsetFetch -----------------------------------------------------------------------------
@each_version(Api.OFFSET_FETCH)
def test_a_group_is_asked_for_offsets_that_no_transaction_will_change(version: int) -> None:
    read = built(OffsetFetch("readers", frozenset(CONSUMED)), version)
    (group,) = getattr(read, "groups", (read,))
    assert group.group_id == "readers"
    assert read.require_stable is True
    found = {
        TopicPartition(topic.name, number)
        for topic in group.topics
        for number in topic.partition_indexes
    }
    assert found == set(CONSUMED)


@each_version(Api.OFFSET_FETCH)
def test_the_group_s_offsets(version: int) -> None:
    parts = responses(Api.OFFSET_FETCH, version)
    many = version >= 8
    topic_kind = parts.OffsetFetchResponseTopics if many else parts.OffsetFetchResponseTopic
    kind = parts.OffsetFetchResponsePartitions if many else parts.OffsetFetchResponsePartition

    def answered(code: int = 0, of_group: int = 0) -> Response:
        topics = tuple(
            topic_kind(
                name=place.topic,
                partitions=(
                    kind(
                        partition_index=place.partition,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        metadata=text,
                        error_code=ErrorCode(code if place == TWO else 0),
                    ),
                ),
            )
            for place, offset, epoch, text in (
                (ONE, 7, -1, None),
                (TWO, 9, 3, "m"),
                (EVENT, -1, -1, ""),
            )
        )
        group: dict[str, Any] = {"topics": topics, "error_code": ErrorCode(of_group)}
        if many:
            group = {"groups": (parts.OffsetFetchResponseGroup(group_id="readers", **group),)}
        whole = parts.OffsetFetchResponse
        said = whole(**throttle(whole), **group)
        return OffsetFetch("readers", frozenset(CONSUMED)).read(over_the_wire(said))

    there = {ONE: OffsetAndMetadata(7), TWO: OffsetAndMetadata(9, "m", 3)}
    assert answered() == Response(offsets=there)
    assert answered(code=88) == Response(88, partition=TWO)
    assert answered(of_group=16) == Response(16)


def test_a_group_s_answer_that_names_no_group() -> None:
    parts = responses(Api.OFFSET_FETCH, 8)
    said = parts.OffsetFetchResponse(**throttle(parts.OffsetFetchResponse), groups=())
    with pytest.raises(ProtocolError, match="not mention group 'readers'"):
        OffsetFetch("readers", frozenset(CONSUMED)).read(over_the_wire(said))


# --- EndTxn ----------------------------------------------------------------------------------
@each_version(Api.END_TXN)
@pytest.mark.parametrize("committed", [True, False])
def test_the_end(version: int, committed: bool) -> None:
    read = built(EndTxn(committed, producer=PAYMENTS), version)
    assert int(read.__version__) == version
    assert (asker(read), read.committed) == (("payments", 77, 3), committed)


@each_version(Api.END_TXN)
def test_the_end_brings_the_next_epoch_from_version_5_on(version: int) -> None:
    kind = responses(Api.END_TXN, version).EndTxnResponse
    given = {"producer_id": 78, "producer_epoch": 0} if version >= 5 else {}
    said = kind(**throttle(kind), error_code=ErrorCode.NONE, **given)
    answer = EndTxn(committed=True, producer=PAYMENTS).read(over_the_wire(said))
    assert answer == (Response(producer_id=78, epoch=0) if version >= 5 else Response())


S = TransactionState
TRANSACTIONS = FindCoordinator(Coordinator(CoordinatorType.TRANSACTION, "payments"))
OF_READERS = FindCoordinator(Coordinator(CoordinatorType.GROUP, "readers"))


# --- coordinators move -----------------------------------------------------------------------
@pytest.mark.parametrize("code", [NOT_COORDINATOR, NOT_AVAILABLE])
def test_a_coordinator_that_is_none_any_more_is_looked_for(code: int) -> None:
    world = opened()
    world.write(ONE)
    ending = world.manager.commit()
    request = world.ask()
    assert world.answer(request, code) is Reaction.FIND_COORDINATOR
    assert world.exchange(node=OTHER) == TRANSACTIONS
    assert world.next() == request
    assert world.manager.node_for(request) == OTHER
    world.run()
    assert ending.done


def test_a_coordinator_that_does_not_answer_is_looked_for_and_asked_the_same() -> None:
    world = opened(2)
    world.offsets()
    world.exchange()
    request = world.ask()
    world.manager.unreachable(request, LOST)
    assert world.exchange(node=OTHER) == OF_READERS
    assert world.ask() is request
    world.answer(request)
    world.manager.commit()
    assert world.ask() == COMMIT, "the other coordinator is known still"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("lost", ["AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn"])
@pytest.mark.parametrize("error", [LOST, NotSentError("reconnecting")], ids=repr)
def test_what_may_be_read_late_must_not_change_the_next_transaction(
    version: int, lost: str, error: ProducerError
) -> None:
    """KIP-890: with version 1 the next one has the same epoch, unless another one is asked for.

    What was not sent is not read.
    """
    world = opened(version)
    world.manager.add_partition(ONE)
    world.offsets()
    ending = world.manager.commit()
    was_lost = False
    for _ in range(20):
        request = world.next()
        if request is None or world.state() is S.INITIALIZING:
            break
        if type(request).__name__ == lost and not was_lost:
            was_lost = True
            assert world.manager.failed(world.ask(), error) is Reaction.FIND_COORDINATOR
            assert ending.may_be_done is (lost == "EndTxn" and error is LOST)
        else:
            world.exchange()
    assert ending.done
    asked_for = version == 1 and was_lost and error is LOST
    assert world.state() is (S.INITIALIZING if asked_for else S.READY)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("outcome", "may_be_done"),
    [
        (LOST, True),
        (NotSentError("reconnecting"), False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
        (NOT_AVAILABLE, True),  # its append to the coordinator's log timed out, for one
        (NOT_COORDINATOR, True),  # the log's leader has moved meanwhile
        (LOADING, False),
        (CONCURRENT, False),
    ],
    ids=str,
)
def test_a_commit_that_was_not_done_is_not_said_to_be_in_doubt(
    version: int, outcome: ProducerError | int, may_be_done: bool
) -> None:
    world = opened(version)
    world.write(ONE)
    ending = world.manager.commit()
    request = world.ask()
    assert request == COMMIT
    if isinstance(outcome, int):
        world.answer(request, outcome)
    else:
        world.manager.failed(request, outcome)
    assert world.manager.leave_cluster(kafka_error(INVALID_MAPPING, "another cluster answers"))
    assert ending.may_be_done is may_be_done
    assert ("commit may have succeeded" in str(world.manager.refusal("commit"))) is may_be_done


def test_a_lost_search_for_a_coordinator_is_begun_again() -> None:
    world = TransactionWorld()
    world.manager.initialize()
    world.manager.unreachable(world.ask(), LOST)
    assert world.next() == TRANSACTIONS


@pytest.mark.parametrize(
    ("code", "reaction"), [(LOADING, Reaction.RETRY), (CONCURRENT, Reaction.RETRY_SOON)]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_passes_is_asked_again_and_changes_nothing(
    version: int, code: int, reaction: Reaction
) -> None:
    world = TransactionWorld(version)
    world.manager.initialize()
    for _ in range(3):
        request = world.next()
        moves = world.manager.state_changes
        if isinstance(request, FindCoordinator):
            world.exchange()
            continue
        assert world.answer(world.ask(), code) is reaction
        assert world.next() == request
        assert world.manager.state_changes == moves
    world.run()
    world.begin()
    world.manager.add_partition(ONE)
    world.offsets()
    world.manager.commit()
    while (request := world.next()) is not None:
        if not isinstance(request, FindCoordinator):
            assert world.answer(world.ask(), code) is reaction
            assert world.next() == request
        world.exchange()
    assert world.manager.state is S.READY
