"""Sessions of the model that a real Kafka can't be brought to in a conversation."""

from __future__ import annotations

from typing import Any

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka import ClusterOptions
from tests.support.conversations import chat as c
from tests.support.conversations.chat import Chat
from tests.support.conversations.fetch_sessions import Fetching, Topics
from tests.support.conversations.lines import ModelLine

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
