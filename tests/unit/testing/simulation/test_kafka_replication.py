"""Replicas of the model, and sessions: acknowledgements, elections, and what crashes lose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat
from tests.support.conversations.fetch_sessions import Fetching, Topics
from tests.support.conversations.lines import ModelLine

SLOW = (0.5, 0.5)
DETECTED = 2.0


def held(
    brokers: int = 3,
    *,
    replication: tuple[float, float] = (0.001, 0.002),
    metadata: tuple[float, float] = (0.0, 0.0),
    config: Mapping[str, str] | None = None,
) -> Chat:
    line = ModelLine.of(brokers, ClusterOptions(replication=replication, metadata=metadata))
    return Chat(line, "topic", config)


def code(chat: Chat, sequence: int, *, acks: int = -1, epoch: int = 0) -> ErrorCode:
    body = chat.produce(sequence, producer=(5, epoch), acks=acks)
    return ErrorCode(body.responses[0].partition_responses[0].error_code)


def sequences(chat: Chat) -> list[int]:
    return [each.sequence for each in model_line(chat).model.log(chat.topic, 0)]


def model_line(chat: Chat) -> ModelLine:
    assert isinstance(chat.line, ModelLine)
    return chat.line


def led_anew(chat: Chat) -> None:
    """Ask who leads now, by a new connection if the last one has ended."""
    model_line(chat).hang_up()
    topic = chat.metadata({"topic_id": None, "name": chat.topic}, heard=False).topics[0]
    chat.leader = topic.partitions[0].leader_id
    chat.leader_epoch = topic.partitions[0].leader_epoch


def crash_of_the_leader(chat: Chat, *, lose_unreplicated: bool) -> int:
    """Returns the broker that led."""
    line, old = model_line(chat), chat.leader
    line.model.crash(old, line.now, lose_unreplicated=lose_unreplicated)
    line.wait(DETECTED)
    chat.leader = chat.followers[0]
    led_anew(chat)
    return old


def test_all_replicas_have_what_is_acknowledged_by_all() -> None:
    chat = held(replication=SLOW)
    before = model_line(chat).now
    assert code(chat, 0) == ErrorCode.NONE
    assert model_line(chat).now - before >= 0.5
    assert model_line(chat).model.high_watermark(chat.topic, 0) == 1


def test_the_leader_alone_acknowledges_at_once() -> None:
    chat = held(replication=SLOW)
    before = model_line(chat).now
    assert code(chat, 0, acks=1) == ErrorCode.NONE
    assert model_line(chat).now == before
    assert model_line(chat).model.high_watermark(chat.topic, 0) == 0


def test_a_crash_loses_what_no_follower_has() -> None:
    chat = held(replication=SLOW)
    code(chat, 0)
    code(chat, 1, acks=1)
    crash_of_the_leader(chat, lose_unreplicated=True)
    assert sequences(chat) == [0]
    assert code(chat, 1) == ErrorCode.NONE
    assert sequences(chat) == [0, 1]


def test_a_crash_may_lose_nothing() -> None:
    chat = held(replication=SLOW)
    code(chat, 0, acks=1)
    crash_of_the_leader(chat, lose_unreplicated=False)
    assert sequences(chat) == [0]


def test_a_new_leader_knows_the_producers_of_its_log() -> None:
    chat = held()
    for sequence in range(3):
        code(chat, sequence)
    crash_of_the_leader(chat, lose_unreplicated=True)
    assert chat.leader_epoch > 0
    assert code(chat, 1) == ErrorCode.NONE
    assert code(chat, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sequences(chat) == [0, 1, 2]


def test_a_broker_that_is_back_follows_and_joins() -> None:
    chat = held()
    code(chat, 0)
    old = crash_of_the_leader(chat, lose_unreplicated=True)
    model = model_line(chat).model
    partition = model.cluster.partition(chat.topic, 0)
    assert partition is not None
    assert old not in partition.isr
    code(chat, 1)
    model.restart(old, model_line(chat).now)
    model_line(chat).wait(1.0)
    assert old in partition.isr
    assert partition.end_offsets[old] == 2


def test_too_few_replicas() -> None:
    chat = held(config={"min.insync.replicas": "2"})
    line = model_line(chat)
    for follower in chat.followers:
        line.model.shrink_isr(chat.topic, 0, follower, line.now, 3.0)
    assert code(chat, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert sequences(chat) == []
    assert code(chat, 0, acks=1) == ErrorCode.NONE
    line.wait(4.0)
    assert code(chat, 1) == ErrorCode.NONE


def test_replicas_that_are_missed_after_the_append() -> None:
    chat = held(replication=SLOW, config={"min.insync.replicas": "2"})
    line = model_line(chat)

    def shrink(now: float) -> None:
        for follower in chat.followers:
            line.model.shrink_isr(chat.topic, 0, follower, now, 3.0)

    line.model.cluster.schedule.at(line.now + 0.1, shrink)
    assert code(chat, 0) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert sequences(chat) == [0]


def test_a_leader_that_moves_answers_with_its_successor() -> None:
    chat = held(replication=SLOW)
    line, old, new = model_line(chat), chat.leader, chat.followers[1]
    line.model.cluster.schedule.at(
        line.now + 0.1, lambda now: line.model.move_leader(chat.topic, 0, new, now)
    )
    body = chat.produce(0, producer=(5, 0), to=old)
    answer = body.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (new, 1)


def test_a_partition_without_replicas_in_sync_waits_for_its_leader() -> None:
    chat = held(2)
    line = model_line(chat)
    line.model.shrink_isr(chat.topic, 0, chat.followers[0], line.now, 60.0)
    code(chat, 0)
    old = crash_of_the_leader(chat, lose_unreplicated=True)
    assert chat.leader == -1
    line.model.restart(old, line.now)
    chat.leader = chat.followers[0]
    led_anew(chat)
    assert chat.leader == old
    assert code(chat, 0) == ErrorCode.NONE
    assert sequences(chat) == [0]


def test_an_unclean_election_loses_records_and_goes_on() -> None:
    chat = held(2, config={"unclean.leader.election.enable": "true"})
    line = model_line(chat)
    line.model.shrink_isr(chat.topic, 0, chat.followers[0], line.now, 60.0)
    code(chat, 0)
    crash_of_the_leader(chat, lose_unreplicated=True)
    assert chat.leader == chat.followers[0]
    assert sequences(chat) == []


def test_a_restart_forgets_a_leader_that_nobody_has_missed() -> None:
    chat = held(1)
    line = model_line(chat)
    code(chat, 0)
    line.model.crash(1, line.now)
    line.model.restart(1, line.now)
    led_anew(chat)
    assert chat.leader == 1
    assert chat.leader_epoch > 0
    assert code(chat, 0) == ErrorCode.NONE
    assert sequences(chat) == [0]


def test_truncation_begins_an_epoch() -> None:
    chat = held()
    line = model_line(chat)
    for sequence in range(3):
        code(chat, sequence)
    line.model.truncate(chat.topic, 0, 1, line.now)
    assert sequences(chat) == [0]
    answer = chat.fetch(2, last_epoch=0).responses[0].partitions[0]
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (0, 1)


def test_a_restarted_broker_knows_the_last_batch_of_a_producer() -> None:
    chat = held(1)
    line = model_line(chat)
    code(chat, 0)
    code(chat, 1)
    line.model.crash(1, line.now)
    line.model.restart(1, line.now)
    led_anew(chat)
    assert code(chat, 0) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(chat, 1) == ErrorCode.NONE
    assert code(chat, 2) == ErrorCode.NONE
    assert sequences(chat) == [0, 1, 2]


def test_duplicates_are_named_if_the_brokers_are_old() -> None:
    chat = Chat(ModelLine.of(1, ClusterOptions(names_duplicates=True)), "topic")
    assert code(chat, 0) == ErrorCode.NONE
    assert code(chat, 0) == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert sequences(chat) == [0]


def test_the_model_keeps_the_requests_that_it_was_to_fail() -> None:
    chat = held(1)
    model = model_line(chat).model
    model.fail_next(0, ErrorCode.INVALID_RECORD)
    assert code(chat, 0) == ErrorCode.INVALID_RECORD
    assert code(chat, 0) == ErrorCode.NONE
    assert [(request.api, error) for request, error in model.failed] == [
        (0, ErrorCode.INVALID_RECORD)
    ]


def test_lost_records_are_lost_by_whole_batches() -> None:
    chat = held()
    line = model_line(chat)
    chat.produce(0, producer=(5, 0))
    chat.produce(1, 4, producer=(5, 0))
    line.model.truncate(chat.topic, 0, 3, line.now)
    assert sequences(chat) == [0]
    assert line.model.high_watermark(chat.topic, 0) == 1


def test_deleted_records_take_the_producer_state_with_them_only_when_it_expires() -> None:
    chat = held()
    line = model_line(chat)
    code(chat, 0)
    line.model.delete_records(chat.topic, 0, 1, line.now)
    assert code(chat, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    line.model.expire_producer_ids(line.now)
    assert code(chat, 5) == ErrorCode.NONE


def test_a_topic_made_anew_is_empty_and_has_another_id() -> None:
    chat = held(config={"max.message.bytes": "500"})
    line = model_line(chat)
    code(chat, 0)
    line.model.recreate_topic(chat.topic, line.now)
    topic = line.model.cluster.topics[chat.topic]
    assert topic.id != chat.topic_id
    assert topic.config["max.message.bytes"] == "500"
    assert sequences(chat) == []


def test_a_topic_made_anew_has_replicas_on_brokers_that_are_down() -> None:
    chat = held(config={"min.insync.replicas": "2"})
    line = model_line(chat)
    for follower in chat.followers:
        line.model.crash(follower, line.now)
    line.wait(DETECTED)
    line.model.recreate_topic(chat.topic, line.now)
    partition = line.model.cluster.partition(chat.topic, 0)
    assert partition is not None
    assert sorted(partition.replicas) == sorted(line.brokers)
    assert (partition.leader, partition.isr) == (chat.leader, {chat.leader})
    led_anew(chat)
    assert code(chat, 0) == ErrorCode.NOT_ENOUGH_REPLICAS
    line.model.restart(chat.followers[0], line.now)
    line.wait(1.0)
    assert code(chat, 0) == ErrorCode.NONE


def test_a_topic_made_anew_is_replicated_while_records_of_the_old_one_are_under_way() -> None:
    chat = held(replication=SLOW)
    line = model_line(chat)
    code(chat, 0, acks=1)
    line.model.recreate_topic(chat.topic, line.now)
    line.wait(0.3)
    led_anew(chat)
    begun = line.now
    assert code(chat, 0) == ErrorCode.NONE
    assert line.now - begun <= 0.6


def test_brokers_learn_late_of_a_new_leader() -> None:
    chat = held(metadata=(1.0, 1.0))
    line, old, new = model_line(chat), chat.leader, chat.followers[0]
    line.model.move_leader(chat.topic, 0, new, line.now)
    led_anew(chat)
    assert (chat.leader, chat.leader_epoch) == (old, 0)
    assert code(chat, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    line.wait(1.0)
    led_anew(chat)
    assert (chat.leader, chat.leader_epoch) == (new, 1)
    assert code(chat, 0) == ErrorCode.NONE


STALE = 121.0


def line_of(slots: int = 1_000) -> ModelLine:
    return ModelLine.of(3, ClusterOptions(fetch_session_slots=slots))


def test_a_full_cache_grants_no_session_until_one_is_stale() -> None:
    line = line_of(slots=1)
    topics = Topics(Chat(line, "topic"), 1)
    first, second = Fetching(topics), Fetching(topics)
    first.fetch([(0, 0)])
    assert not second.fetch([(0, 0)]).session_id
    line.wait(STALE)
    assert second.fetch([(0, 0)]).session_id
    assert first.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_without_slots_there_is_no_session() -> None:
    topics = Topics(Chat(line_of(slots=0), "topic"), 1)
    assert not Fetching(topics).fetch([(0, 0)]).session_id


def test_a_broker_that_has_started_anew_knows_no_session() -> None:
    line = line_of()
    chat = Chat(line, "topic")
    client = Fetching(Topics(chat, 1))
    client.fetch([(0, 0)])
    line.model.crash(chat.leader, line.now)
    line.model.restart(chat.leader, line.now)
    line.hang_up()
    assert client.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_two_requests_of_a_session_at_once() -> None:
    chat = Chat(line_of(), "topic")
    client = Fetching(Topics(chat, 1))
    client.fetch([(0, 0)])
    fields: dict[str, Any] = {
        "replica_id": -1,
        "min_bytes": 1,
        "session_id": client.id,
        "topics": [],
        "forgotten_topics_data": [],
    }
    waits = chat.begin(c.FETCH, 12, party="first", session_epoch=1, max_wait_ms=500, **fields)
    other = chat.begin(c.FETCH, 12, party="other", session_epoch=2, max_wait_ms=0, **fields)
    assert chat.finish(other).error_code == ErrorCode.NONE
    assert chat.finish(waits).error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
