"""An Admin before brokers that do as a script says, and before damaged answers."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from aioproducer import ProducerConfig
from aioproducer.admin import Admin, NewTopic
from aioproducer.admin.requests import (
    AlterConfigsRequest,
    AlterOffsetsRequest,
    ApiVersionsRequest,
    CommittedOffsetsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteOffsetsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConsumerGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from aioproducer.engine.network import frames
from aioproducer.engine.network.request import Request
from aioproducer.engine.protocol import Api
from aioproducer.engine.transactions.requests import FindCoordinator, group_coordinator
from aioproducer.errors import (
    BrokerNotAvailableError,
    ClientClosedError,
    ConfigError,
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    NonEmptyGroupError,
    PolicyViolationError,
    ProducerTimeoutError,
    ProtocolError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.fake_kafka import Answer
from tests.support.kio_messages import decode, judged, response_type, sample
from tests.unit.admin.scripted_kafka import (
    NOT_CONTROLLER,
    NOT_COORDINATOR,
    NOT_LEADER,
    RECORDS,
    UNKNOWN_TOPIC,
    AdminKafka,
    admin_kafka,
    admin_of,
)
from tests.unit.admin.test_requests import ASSIGNED
from tests.unit.network.test_frames import body

TIMED_OUT, LOADING, UNSUPPORTED_VERSION, POLICY = 7, 14, 35, 44
INTERNAL = ["__consumer_offsets", "__transaction_state"]
OTHERS = TopicPartition("others", 0)
ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))


def brokers_of(kafka: AdminKafka, api: Api) -> list[int]:
    return [each.broker for each in kafka.requests(api)]


# --- the controller ------------------------------------------------------------------------------


async def test_changes_of_topics_go_to_the_controller() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.controller = 2
        created = await admin.create_topic("new", 2, 1)
        assert (created.name, created.partitions) == ("new", 2)
        await admin.add_partitions("new", 4)
        assert len(kafka.topics["new"]) == 4
        await admin.delete_topics(["new", "orders"])
        assert not kafka.topics
        for api in (Api.CREATE_TOPICS, Api.CREATE_PARTITIONS, Api.DELETE_TOPICS):
            assert brokers_of(kafka, api) == [2]


async def test_a_new_controller_is_looked_up() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.controller = 3
        kafka.announced.extend([1, -1, 2])
        await admin.create_topic("new", 1, 1)
        named_none = 1  # then any broker is asked, and this one is no controller
        assert brokers_of(kafka, Api.CREATE_TOPICS) == [1, named_none, 2, 3]
        assert "new" in kafka.topics


async def test_only_the_topics_whose_error_may_pass_are_tried_again() -> None:
    topics = [NewTopic(name, 1, 1) for name in ("a", "b", "orders")]
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.CREATE_TOPICS].append(Answer(NOT_CONTROLLER))
        with pytest.raises(TopicAlreadyExistsError, match=r"^topic 'orders': [^(]*$") as caught:
            await admin.create_topics(topics)
        assert caught.value.__notes__ == ["succeeded: topic 'a', topic 'b'"]
        asked = [
            [str(topic.name) for topic in each.body.topics]
            for each in kafka.requests(Api.CREATE_TOPICS)
        ]
        assert asked == [["a", "b", "orders"], ["a"]]


async def test_a_refused_topic() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.CREATE_TOPICS].append(Answer(POLICY))
        with pytest.raises(PolicyViolationError, match="topic 'new'"):
            await admin.create_topic("new", 1, 1)
        assert len(kafka.requests(Api.CREATE_TOPICS)) == 1


async def test_a_lost_response_leaves_a_doubt() -> None:
    """The first attempt made the topic; nobody could tell that from another client's work."""
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.CREATE_TOPICS].append(Answer(cut_after_writing=True))
        with pytest.raises(TopicAlreadyExistsError, match=r"'new'.*got no response") as caught:
            await admin.create_topic("new", 1, 1)
        assert caught.value.may_have_been_written
        kafka.script[Api.DELETE_TOPICS].append(Answer(cut_after_writing=True))
        with pytest.raises(UnknownTopicOrPartitionError, match=r"'new'.*got no response"):
            await admin.delete_topics("new")


async def test_a_lost_request_is_sent_again() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.CREATE_TOPICS].append(Answer(cut=True))
        await admin.create_topic("new", 1, 1)
        assert len(kafka.requests(Api.CREATE_TOPICS)) == 2


@pytest.mark.parametrize("port", [0, -5, 70_000])
async def test_a_controller_that_cannot_be_reached_leaves_no_doubt(port: int) -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.advertised[1] = port
        with pytest.raises(ProducerTimeoutError, match=r"'new' took .*broker 1") as caught:
            await admin.create_topic("new", 1, 1, timeout=1)
        assert not caught.value.may_have_been_written
        assert "got no response" not in str(caught.value)


async def test_a_controller_that_runs_out_of_time_leaves_a_doubt() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.CREATE_TOPICS].extend([Answer(TIMED_OUT), Answer(POLICY)])
        with pytest.raises(PolicyViolationError, match="got no response"):
            await admin.create_topic("new", 1, 1)


async def test_a_silent_controller_is_waited_for_until_the_timeout() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.mute.add(Api.CREATE_TOPICS)
        began = time.monotonic()
        with pytest.raises(
            ProducerTimeoutError, match=r"creating topic 'new' took longer than 1 s.*no response"
        ) as caught:
            await admin.create_topic("new", 1, 1, timeout=1)
        assert time.monotonic() - began < 20
        assert caught.value.may_have_been_written
        kafka.mute.clear()
        assert (await admin.describe_topics("orders"))["orders"].partitions[2].leader == 3


@pytest.mark.parametrize("seed", range(40))
async def test_the_outcome_of_a_disturbed_creation_is_true(seed: int) -> None:
    """Connections are cut before and after the work is done, and requests are refused."""
    random = Random(seed)
    names = [f"t{number}" for number in range(random.randint(1, 4))]
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        before = {name for name in names if random.random() < 0.2}
        for name in before:
            kafka.create_topic(name)
        for kind in random.choices(["", "", "cut", "cut_after_writing"], k=6):
            code = random.choice([0, 0, NOT_CONTROLLER, TIMED_OUT, POLICY])
            answer = Answer(code, cut=kind == "cut", cut_after_writing=kind == "cut_after_writing")
            kafka.script[Api.CREATE_TOPICS].append(answer)
        told: dict[str, bool] = {}
        try:
            created = await admin.create_topics(NewTopic(name, 1, 1) for name in names)
            told |= dict.fromkeys(created, True)
        except KafkaError as error:
            notes = " ".join(getattr(error, "__notes__", ())).partition("succeeded: ")[2]
            told |= {name: True for name in names if f"topic '{name}'" in notes}
            if not error.may_have_been_written:
                told |= {name: False for name in names if str(error).startswith(f"topic '{name}'")}
        for name, made in told.items():
            if made:
                assert name in kafka.topics
                assert name not in before
            else:
                assert name in before or name not in kafka.topics


async def test_validation_changes_nothing_and_leaves_no_doubt() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        await admin.create_topic("new", 1, 1, validate_only=True)
        assert "new" not in kafka.topics
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.describe_topics("new")
        assert len(kafka.requests(Api.METADATA)) == 2, "nothing is waited for"
        kafka.mute.add(Api.CREATE_TOPICS)
        with pytest.raises(ProducerTimeoutError, match="'new' took longer") as caught:
            await admin.create_topic("new", 1, 1, validate_only=True, timeout=0.1)
        assert not caught.value.may_have_been_written


async def test_a_cancelled_call_ends_at_once_and_disturbs_no_other() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.mute.add(Api.CREATE_TOPICS)
        task = asyncio.ensure_future(admin.create_topic("new", 1, 1))
        other = asyncio.ensure_future(admin.create_topic("other", 1, 1))
        await kafka.until_received(Api.CREATE_TOPICS, 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not other.done()
        assert await admin.list_topics() == ["orders"]
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


# --- topics that brokers do not know -------------------------------------------------------------


async def test_an_unknown_topic_is_an_error_at_once() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 'none'"):
            await admin.describe_topics(["orders", "none"])
        with pytest.raises(UnknownTopicOrPartitionError, match="none-0"):
            await admin.delete_records({TopicPartition("none", 0): 1, ZERO: 1})
        with pytest.raises(UnknownTopicOrPartitionError, match=r"orders-7: .* partitions 0 to 2"):
            await admin.delete_records({TopicPartition("orders", 7): 1})
        with pytest.raises(UnknownTopicOrPartitionError, match="topic 'none'"):
            await admin.describe_configs("none")
        assert len(kafka.requests(Api.METADATA)) == 3


async def test_a_topic_of_this_admin_is_waited_for() -> None:
    """The other brokers learn of a new topic a moment after the controller."""
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        await admin.create_topic("new", 2, 1)
        kafka.forgetful = 2
        assert len((await admin.describe_topics("new"))["new"].partitions) == 2
        kafka.forgetful = 2
        new = TopicPartition("new", 1)
        kafka.write(*new, *RECORDS)
        assert await admin.delete_records({new: 5}) == {new: 5}
        kafka.forgetful = 2
        await admin.delete_topics("new")
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.describe_topics("new")
        assert kafka.forgetful == 1


async def test_leaders_are_waited_for() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.lead("orders", 1, -1)
        waiting = asyncio.ensure_future(admin.wait_for_leaders(["orders", "later"]))
        await kafka.until_received(Api.METADATA, 3)
        assert not waiting.done()
        kafka.lead("orders", 1, 2)
        kafka.create_topic("later", 1)
        found = await waiting
        assert [each.leader for each in found["orders"].partitions] == [1, 2, 3]
        kafka.lead("orders", 1, -1)
        with pytest.raises(
            ProducerTimeoutError, match=r"leaders of topic 'orders' .*partitions \[1\] have no"
        ):
            await admin.wait_for_leaders("orders", timeout=1)


async def test_all_topics() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.create_topic("a")
        assert await admin.list_topics() == ["a", "orders"]
        assert await admin.list_topics(internal=True) == [*INTERNAL, "a", "orders"]
        assert list(await admin.describe_topics()) == [*INTERNAL, "a", "orders"]
        found = await admin.describe_topics(configs=True)
        configs = found["a"].configs
        assert configs is not None
        assert configs["retention.ms"].is_default


# --- leaders -------------------------------------------------------------------------------------


async def test_records_are_deleted_by_the_leaders() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.DELETE_RECORDS].append(Answer(NOT_LEADER))
        offsets = {TWO: 7, ZERO: 5, ONE: 6}
        found = await admin.delete_records(offsets)
        assert list(found.items()) == list(offsets.items())
        asked = kafka.requests(Api.DELETE_RECORDS)
        assert sorted(each.broker for each in asked[:3]) == [1, 2, 3]
        assert len(asked) == 4, "the refused partition alone is asked for again"
        assert asked[3].broker == asked[0].broker


@pytest.mark.parametrize("code", [NOT_LEADER, UNKNOWN_TOPIC])
async def test_a_leader_that_does_not_know_its_partition_yet(code: int) -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.DELETE_RECORDS].append(Answer(code))
        assert await admin.delete_records({ONE: 7}) == {ONE: 7}
        assert brokers_of(kafka, Api.DELETE_RECORDS) == [2, 2]


async def test_a_lost_leader_costs_the_others_nothing() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.DELETE_RECORDS].append(Answer(cut=True))
        assert await admin.delete_records({TWO: 7, ZERO: 5, ONE: 6}) == {TWO: 7, ZERO: 5, ONE: 6}
        assert len(kafka.requests(Api.DELETE_RECORDS)) == 4


async def test_the_answers_of_other_leaders_count_though_one_is_silent() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        await admin.describe_cluster()
        kafka.in_metadata.discard(3)
        with pytest.raises(ProducerTimeoutError, match=r"deleting records of .*orders") as caught:
            await admin.delete_records({TWO: 7, ZERO: 5}, timeout=1)
        assert caught.value.__notes__ == ["succeeded: orders-0"]
        assert not caught.value.may_have_been_written, "no leader was asked"
        assert brokers_of(kafka, Api.DELETE_RECORDS) == [1]


async def test_a_partition_that_the_metadata_leave_out_moves_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        complete = kafka._metadata

        def without_one(request: Any, fields: Any) -> Any:
            found = complete(request, fields)
            for topic in found["topics"]:
                topic["partitions"] = [
                    each for each in topic["partitions"] if each["partition_index"] != ONE.partition
                ]
            return found

        monkeypatch.setattr(kafka, "_metadata", without_one)
        assert await admin.delete_records({TWO: 7}) == {TWO: 7}
        assert brokers_of(kafka, Api.DELETE_RECORDS) == [3]
        with pytest.raises(UnknownTopicOrPartitionError, match=r"orders-1: .* has left it out of"):
            await admin.delete_records({ONE: 7})


# --- configurations ------------------------------------------------------------------------------


async def test_a_broker_describes_itself() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        found = await admin.describe_configs([2, "orders", 3])
        assert list(found) == [2, "orders", 3]
        assert found[2]["told.by"].value == "2"
        assert found[3]["told.by"].value == "3"
        with pytest.raises(BrokerNotAvailableError, match=r"broker 9: .*brokers \[1, 2, 3\]"):
            await admin.describe_configs([2, 9])
        await admin.alter_configs({2: {"a": 1}, "orders": {"retention.ms": None}})
        altered = kafka.requests(Api.INCREMENTAL_ALTER_CONFIGS)
        assert {each.broker for each in altered if each.body.resources[0].resource_type == 4} == {2}


# --- groups --------------------------------------------------------------------------------------


async def test_the_groups_of_all_brokers_are_listed() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.add_group("b")
        kafka.add_group("a")
        kafka.script[Api.LIST_GROUPS].append(Answer(LOADING))
        assert [each.group_id for each in await admin.list_groups()] == ["a", "b"]
        asked = brokers_of(kafka, Api.LIST_GROUPS)
        assert sorted(asked[:3]) == [1, 2, 3]
        assert asked[3:] == asked[:1], "the broker that was loading is asked again"


async def test_a_broker_that_left_coordinates_no_group() -> None:
    async with (
        admin_kafka() as kafka,
        admin_of(kafka, retry_backoff_ms=200, retry_backoff_max_ms=200) as admin,
    ):
        kafka.add_group("a")
        kafka.script[Api.LIST_GROUPS].extend([Answer(LOADING)] * 3)
        listing = asyncio.ensure_future(admin.list_groups())
        await kafka.until_received(Api.LIST_GROUPS, 3)
        kafka.in_metadata.discard(3)
        assert [each.group_id for each in await listing] == ["a"]
        assert sorted(brokers_of(kafka, Api.LIST_GROUPS)[3:]) == [1, 2]


async def test_the_lag_of_a_group() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.create_topic("gone")
        kafka.topic_errors["gone"] = UNKNOWN_TOPIC
        kafka.add_group("readers", {("orders", 2): 90, ("orders", 0): 100, ("gone", 0): 7})
        kafka.script[Api.OFFSET_FETCH].append(Answer(NOT_COORDINATOR))
        kafka.script[Api.LIST_OFFSETS].append(Answer(NOT_LEADER))
        found = await admin.group_lag("readers")
        assert list(found) == [TopicPartition("gone", 0), ZERO, TWO]
        assert [each.lag for each in found.values()] == [None, 0, 10]
        assert found[TWO].end == 100
        assert list(await admin.group_lag("readers", topics="orders")) == [ZERO, TWO]
        kafka.add_group("idle")
        assert await admin.group_lag("idle") == {}


async def test_a_group_that_is_not_there() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.add_group("readers")
        with pytest.raises(GroupIdNotFoundError, match=r"group 'none': .*none") as caught:
            await admin.describe_groups(["readers", "none"])
        assert caught.value.__notes__ == ["succeeded: group 'readers'"]
        with pytest.raises(GroupIdNotFoundError, match="group 'none'"):
            await admin.group_lag("none")


async def test_the_offsets_of_a_group_are_changed() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.OFFSET_COMMIT].append(Answer(LOADING))
        await admin.alter_group_offsets("readers", {TWO: OffsetAndMetadata(9), ZERO: 4})
        assert len(kafka.requests(Api.OFFSET_COMMIT)) == 2, "the coordinator was loading"
        found = await admin.group_offsets("readers")
        assert {where: at.offset for where, at in found.items()} == {ZERO: 4, TWO: 9}
        assert list(await admin.group_offsets("readers", topics="others")) == []
        kafka.create_topic("others")
        await admin.alter_group_offsets("readers", {OTHERS: 7})
        kafka.join("readers")
        with pytest.raises(
            GroupSubscribedToTopicError, match=r"'readers', orders-0: .* stop"
        ) as no:
            await admin.delete_group_offsets("readers", [ZERO, OTHERS])
        assert no.value.__notes__ == ["succeeded: group 'readers', others-0"]
        assert kafka.groups["readers"] == {("orders", 0): 4, ("orders", 2): 9}
        with pytest.raises(GroupIdNotFoundError, match="group 'none': "):
            await admin.delete_group_offsets("none", [ZERO, TWO])


async def test_one_of_the_offsets_is_refused() -> None:
    none = TopicPartition("none", 0)
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        with pytest.raises(UnknownTopicOrPartitionError, match="'readers', none-0: ") as caught:
            await admin.alter_group_offsets("readers", {ZERO: 4, none: 7, ONE: 5})
        assert caught.value.__notes__ == [
            "succeeded: group 'readers', orders-0, group 'readers', orders-1"
        ]
        await admin.create_topic("none", 1, 1)
        kafka.script[Api.OFFSET_COMMIT].append(Answer(UNKNOWN_TOPIC))
        await admin.alter_group_offsets("readers", {none: 7, ONE: 6})
        assert kafka.groups["readers"] == {("orders", 0): 4, ("orders", 1): 6, ("none", 0): 7}
        assert len(kafka.requests(Api.OFFSET_COMMIT)) == 3, "brokers learn of a new topic later"
        with pytest.raises(UnknownTopicOrPartitionError, match="'readers', none-1: "):
            await admin.alter_group_offsets("readers", {TopicPartition("none", 1): 7})
        assert len(kafka.requests(Api.OFFSET_COMMIT)) == 4, "the new topic has one partition"


async def test_a_group_with_members_is_left_alone() -> None:
    """One error for all partitions: the group as a whole refuses."""
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.add_group("idle")
        kafka.join("readers")
        with pytest.raises(UnknownMemberIdError, match=r"group 'readers': .* stop them") as caught:
            await admin.alter_group_offsets("readers", {ZERO: 1, ONE: 1, TWO: 1})
        assert not hasattr(caught.value, "__notes__")
        with pytest.raises(NonEmptyGroupError, match=r"group 'readers': .* stop them") as refused:
            await admin.delete_groups(["idle", "readers"])
        assert refused.value.__notes__ == ["succeeded: group 'idle'"]
        assert list(kafka.groups) == ["readers"]


async def test_groups_are_deleted_at_their_coordinator() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.add_group("a")
        kafka.add_group("b")
        kafka.script[Api.DELETE_GROUPS].append(Answer(NOT_COORDINATOR))
        await admin.delete_groups(["a", "b"])
        assert kafka.groups == {}
        assert set(brokers_of(kafka, Api.DELETE_GROUPS)) == {kafka.group_coordinator}
        kafka.add_group("c")
        kafka.script[Api.DELETE_GROUPS].append(Answer(cut_after_writing=True))
        with pytest.raises(GroupIdNotFoundError, match=r"'c'.*got no response") as caught:
            await admin.delete_groups("c")
        assert caught.value.may_have_been_written


async def test_the_coordinator_of_a_group_is_named() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.add_group("readers")
        coordinator = (await admin.describe_groups("readers"))["readers"].coordinator
        assert coordinator is not None
        assert coordinator.id == kafka.group_coordinator


async def test_offsets_of_positions() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
        earlier = noon - timedelta(days=1_000)
        kafka.topics["orders"][0].delete_records(7)
        found = await admin.list_offsets({TWO: "end", ZERO: "beginning", ONE: earlier})
        assert found == {TWO: 100, ZERO: 7, ONE: 0}
        assert await admin.list_offsets({ONE: noon}) == {ONE: 100}, "the end: no record is so late"
        asked = [
            (each.partition_index, each.timestamp)
            for request in kafka.requests(Api.LIST_OFFSETS)
            for topic in request.body.topics
            for each in topic.partitions
        ]
        at_noon, before = (1, 1769860800000), (1, 1683460800000)
        assert sorted(asked) == [(0, -2), (1, -1), before, at_noon, (2, -1)]
        with pytest.raises(UnknownTopicOrPartitionError, match="orders-7"):
            await admin.list_offsets({TopicPartition("orders", 7): "end"})


async def test_a_coordinator_that_does_without_the_newer_protocol_of_groups() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.script[Api.CONSUMER_GROUP_DESCRIBE].append(Answer(UNSUPPORTED_VERSION))
        with pytest.raises(GroupIdNotFoundError, match="group 'none': GROUP_ID_NOT_FOUND"):
            await admin.describe_groups("none")


async def test_brokers_without_the_newer_protocol_of_groups() -> None:
    nothing = {Api.CONSUMER_GROUP_DESCRIBE: (9, 9)}
    async with admin_kafka(versions=nothing) as kafka, admin_of(kafka) as admin:
        with pytest.raises(GroupIdNotFoundError, match="group 'none': GROUP_ID_NOT_FOUND"):
            await admin.describe_groups("none")
        assert brokers_of(kafka, Api.CONSUMER_GROUP_DESCRIBE) == []


# --- the cluster ---------------------------------------------------------------------------------


async def test_the_cluster() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        found = await admin.describe_cluster(versions=True)
        assert (found.cluster_id, found.controller) == ("fake", 1)
        assert [each.id for each in found.brokers] == [1, 2, 3]
        assert found.racks == {1: None, 2: None, 3: None}
        assert found.features == {"transaction.version": 1}
        for broker in found.brokers:
            assert broker.port == kafka.port(broker.id)
            assert broker.versions is not None
            assert broker.versions["CREATE_TOPICS"] == (2, 7)


@pytest.mark.parametrize("moves", [True, False], ids=["moves", "leaves"])
async def test_a_broker_that_moves_or_leaves_while_versions_are_asked(moves: bool) -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        kafka.advertised[3] = 1  # nobody listens there
        describing = asyncio.ensure_future(admin.describe_cluster(versions=True, timeout=2))
        await kafka.until_received(Api.METADATA)
        kafka.advertised.clear()
        if not moves:
            kafka.in_metadata.discard(3)
        found = await describing
        assert {each.id: each.port for each in found.brokers} == {
            broker: kafka.port(broker) for broker in kafka.in_metadata
        }
        assert all(each.versions for each in found.brokers)


async def test_old_brokers() -> None:
    old = {Api.CREATE_TOPICS: (0, 3), Api.INCREMENTAL_ALTER_CONFIGS: (9, 9)}
    async with admin_kafka(versions=old) as kafka, admin_of(kafka) as admin:
        with pytest.raises(UnsupportedVersionError, match=r"'new': .*name partitions"):
            await admin.create_topic("new")
        await admin.create_topic("new", 1, 1)
        with pytest.raises(UnsupportedVersionError, match="supports INCREMENTAL_ALTER_CONFIGS"):
            await admin.alter_configs({"orders": {"a": 1}})


# --- life ----------------------------------------------------------------------------------------


async def test_a_closed_admin_and_one_that_was_not_started() -> None:
    async with admin_kafka() as kafka:
        admin = admin_of(kafka)
        with pytest.raises(IllegalStateError, match="the Admin was not started"):
            await admin.list_topics()
        with pytest.raises(IllegalStateError, match="the Admin was not started"):
            await admin.describe_topics([])
        await admin.start()
        kafka.mute.add(Api.CREATE_TOPICS)
        task = asyncio.ensure_future(admin.create_topic("new", 1, 1))
        await kafka.until_received(Api.CREATE_TOPICS)
        await admin.close()
        with pytest.raises(ClientClosedError, match="the Admin is closed"):
            await task
        with pytest.raises(ClientClosedError, match="the Admin is closed"):
            await admin.list_topics()


async def test_nothing_is_asked_about_nothing() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        assert await admin.describe_topics([]) == {}
        assert await admin.create_topics([]) == {}
        assert await admin.describe_configs([]) == {}
        assert await admin.delete_records({}) == {}
        assert await admin.describe_groups([]) == {}
        assert await admin.list_offsets({}) == {}
        await admin.alter_group_offsets("readers", {})
        await admin.delete_group_offsets("readers", [])
        await admin.delete_groups([])
        await admin.delete_topics([])
        await admin.alter_configs({})
        assert kafka.received == []


async def test_wrong_arguments_are_noticed_before_anything_is_sent() -> None:
    async with admin_kafka() as kafka, admin_of(kafka) as admin:
        with pytest.raises(InvalidTopicError):
            await admin.describe_topics("a b")
        with pytest.raises(ConfigError, match="timeout"):
            await admin.list_topics(timeout=-1)
        assert kafka.received == []


def test_the_options_of_an_admin() -> None:
    config = ProducerConfig(bootstrap_servers="host:1", acks=1)
    admin = Admin(config, client_id="me")
    assert (admin.client_id, admin.config.acks) == ("me", "1")
    assert repr(admin) == "<Admin 'me'>"
    assert Admin(config).client_id.startswith("adminclient-")
    with pytest.raises(ConfigError, match=r"linger_ms: Admin\(\) has no such option"):
        Admin(bootstrap_servers="host:1", linger_ms=5)
    with pytest.raises(ConfigError, match="bootstrap_servers"):
        Admin()


WHERE = TopicPartition("orders", 1)
REQUESTS: tuple[Request, ...] = (
    AlterConfigsRequest({"orders": {"a": "1"}}),
    AlterOffsetsRequest("orders", {WHERE: OffsetAndMetadata(7)}),
    ApiVersionsRequest(),
    CommittedOffsetsRequest("orders"),
    CreatePartitionsRequest("orders", 8, None, 1),
    CreateTopicsRequest((NewTopic("orders", 1, 1),), 1),
    DeleteGroupsRequest(("orders",)),
    DeleteOffsetsRequest("orders", (WHERE,)),
    DeleteRecordsRequest({WHERE: 7}, 1),
    DeleteTopicsRequest(("orders",), 1),
    DescribeConfigsRequest(("orders",)),
    DescribeConsumerGroupsRequest(("orders",)),
    DescribeGroupsRequest(("orders",)),
    FindCoordinator(group_coordinator("orders")),
    ListGroupsRequest(),
)
EACH = [
    pytest.param(request, version, id=f"{request.api.name}-{version}")
    for request in REQUESTS
    for version in judged(request.api)
    if request.build(version).version == version  # else it is sent in an older one
]
VALUES: dict[str, Any] = {
    "resource_type": 2,
    "protocol_type": "consumer",
    "member_assignment": ASSIGNED,
}
ROUNDS = 200
LONGEST = 1.0
"""Seconds of this thread's own time for one answer, many times what it takes."""
MOST_BYTES = 8_000_000


def read(request: Request, version: int, wire: bytes) -> Any:
    kind = response_type(request.api, version)
    return frames.read_response(decode(kind, wire).response, request.read)


@pytest.mark.parametrize(("request_", "version"), EACH)
def test_a_damaged_answer_is_a_value_or_a_protocol_error(request_: Request, version: int) -> None:
    wire = body(sample(response_type(request_.api, version), VALUES))
    assert read(request_, version, wire)
    random = Random(f"{request_.api} {version}")
    refused = 0
    tracemalloc.start()
    try:
        for changes in (1, 3):
            for _ in range(ROUNDS // changes):
                broken = wire[:4] + damaged(wire[4:], random, changes=changes)
                began = time.thread_time()
                try:
                    read(request_, version, broken)
                except ProtocolError:
                    refused += 1
                assert time.thread_time() - began < LONGEST, broken.hex()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES
    assert refused, "some have to be beyond understanding, or nothing was damaged"
