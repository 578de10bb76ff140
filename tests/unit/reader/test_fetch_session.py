"""Incremental fetches: what a request names, against a small model of a broker's memory."""

from __future__ import annotations

from unittest import mock
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.client.requests import IsolationLevel
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, TopicPartition
from aioproducer.reader import requests
from aioproducer.reader.requests import (
    Fetched,
    FetchedPartition,
    FetchLimits,
    FetchPartition,
    FetchRequest,
    FetchSession,
    SessionPlace,
    Turn,
)
from tests.unit.reader.broker_sessions import BrokerSessions

PLACES = [TopicPartition(topic, number) for topic in ("orders", "bills") for number in (0, 1)]
ONE, TWO, OTHER, _ = PLACES
IDS = {"orders": UUID(int=1), "bills": UUID(int=2)}
LIMITS = FetchLimits(500, 1, 1000, 1000)
BROKER = Node(1, "localhost", 9092)
FULL = 0


def partition(
    where: TopicPartition, offset: int = 0, *, topic_id: int = 0, reader: int = 1
) -> FetchPartition:
    """``topic_id``: 0 for the usual one, -1 for none."""
    found = UUID(int=topic_id) if topic_id > 0 else None if topic_id else IDS[where.topic]
    return FetchPartition(where, offset, 5, found, reader)


def wanting(*wanted: FetchPartition) -> FetchSession:
    session = FetchSession(BROKER)
    for each in wanted:
        session.want(each)
    return session


def granted(session: FetchSession, number: int = 7) -> Turn:
    """A turn to which the broker answers with a session, and nothing new."""
    turn = session.next_turn()
    assert session.take(turn, Fetched(0, {}, number))
    return turn


def names(turn: Turn) -> list[TopicPartition]:
    return [each.where for each in turn.named]


def forgets(turn: Turn) -> list[TopicPartition]:
    return [each.where for each in turn.forgotten]


def test_the_first_request_is_full_and_asks_for_a_session() -> None:
    session = wanting(partition(ONE), partition(TWO))
    turn = session.next_turn()
    assert turn.place == SessionPlace(0, FULL)
    assert turn.is_full
    assert names(turn) == [ONE, TWO]
    assert session.topics == {IDS["orders"]: "orders"}


def test_requests_of_a_session_name_what_has_changed() -> None:
    session = wanting(partition(ONE), partition(TWO))
    granted(session)
    turn = granted(session)
    assert (turn.place, turn.named, turn.forgotten) == (SessionPlace(7, 1), (), ())
    session.want(partition(ONE, 3))
    session.want(partition(TWO, 0))
    session.want(partition(OTHER))
    turn = granted(session)
    assert (turn.place, names(turn)) == (SessionPlace(7, 2), [ONE, OTHER])
    assert session.topics == {each: name for name, each in IDS.items()}
    session.leave(ONE)
    turn = granted(session)
    assert (names(turn), forgets(turn)) == ([], [ONE])
    assert list(session) == [TWO, OTHER]


def test_a_change_that_is_taken_back_is_none() -> None:
    session = wanting(partition(ONE), partition(TWO))
    granted(session)
    session.leave(ONE)
    session.want(partition(ONE))
    session.want(partition(TWO, 9))
    session.want(partition(TWO, 0))
    session.want(partition(OTHER))
    session.leave(OTHER)
    turn = session.next_turn()
    assert (turn.named, turn.forgotten) == ((), ())


def test_partitions_with_new_records_are_last_in_a_full_request() -> None:
    session = wanting(partition(ONE), partition(TWO), partition(OTHER))
    session.next_turn()
    session.want(partition(ONE, 4))
    session.want(partition(OTHER))
    session.fail()
    assert names(session.next_turn()) == [TWO, OTHER, ONE]


@pytest.mark.parametrize(
    ("code", "number"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 7),
        (ErrorCode.INCONSISTENT_TOPIC_ID, 7),
    ],
)
def test_a_lost_session_is_made_anew_at_once(code: ErrorCode, number: int) -> None:
    session = wanting(partition(ONE), partition(TWO))
    granted(session)
    session.want(partition(ONE, 5))
    assert not session.take(session.next_turn(), Fetched(code, {}))
    turn = session.next_turn()
    assert (turn.place, names(turn)) == (SessionPlace(number, FULL), [TWO, ONE])
    assert session.take(turn, Fetched(code, {})), "a full request has no session to lose"


def test_other_errors_are_for_the_caller() -> None:
    session = wanting(partition(ONE))
    granted(session)
    assert session.take(session.next_turn(), Fetched(ErrorCode.UNKNOWN_SERVER_ERROR, {}))
    assert session.next_turn().place == SessionPlace(7, FULL)


def test_a_request_without_response_ends_the_session() -> None:
    session = wanting(partition(ONE))
    granted(session)
    session.next_turn()
    session.fail()
    turn = session.next_turn()
    assert (turn.place, names(turn)) == (SessionPlace(7, FULL), [ONE])


def test_without_a_session_every_request_is_full() -> None:
    session = wanting(partition(ONE), partition(TWO))
    for _ in range(3):
        turn = granted(session, 0)
        assert (turn.place, names(turn)) == (SessionPlace(0, FULL), [ONE, TWO])
        session.leave(OTHER)
    session.leave(ONE)
    turn = session.next_turn()
    assert (names(turn), forgets(turn)) == ([TWO], [])


def test_a_session_that_the_broker_closes_is_made_anew() -> None:
    session = wanting(partition(ONE))
    granted(session)
    granted(session, 0)
    assert session.next_turn().place == SessionPlace(0, FULL)


def test_many_partitions_are_named_in_several_requests() -> None:
    places = [TopicPartition("orders", number) for number in range(5_000)]
    session = wanting(*map(partition, places))
    turns = [granted(session) for _ in range(3)]
    assert [(turn.is_full, turn.has_more) for turn in turns] == [
        (True, True),
        (False, True),
        (False, False),
    ]
    assert [len(turn.named) for turn in turns] == [2_000, 2_000, 1_000]
    assert [where for turn in turns for where in names(turn)] == places
    assert session.next_turn().named == ()


def test_a_broker_that_keeps_no_session_is_told_all_partitions_at_once() -> None:
    places = [TopicPartition("orders", number) for number in range(5_000)]
    session = wanting(*map(partition, places))
    for count in (2_000, 5_000, 5_000):
        turn = session.next_turn()
        assert (turn.is_full, len(turn.named)) == (True, count)
        session.take(turn, Fetched(0, {}, 0))


def test_a_session_begins_anew_when_the_first_topic_without_an_id_comes_and_the_last_goes() -> None:
    session = wanting(partition(ONE))
    assert granted(session).has_ids
    session.want(partition(OTHER, topic_id=-1))
    turn = granted(session)
    assert (turn.place, turn.has_ids, names(turn)) == (SessionPlace(7, FULL), False, [ONE, OTHER])
    session.want(partition(TWO))
    turn = granted(session)
    assert (turn.place, turn.has_ids, names(turn)) == (SessionPlace(7, 1), False, [TWO])
    session.want(partition(OTHER))  # its id is known now
    turn = granted(session)
    assert (turn.place, turn.has_ids) == (SessionPlace(7, FULL), True)
    assert set(names(turn)) == {ONE, TWO, OTHER}
    session.want(partition(OTHER, topic_id=-1))
    granted(session)
    session.leave(OTHER)
    turn = session.next_turn()
    assert (turn.place, turn.has_ids, forgets(turn)) == (SessionPlace(7, FULL), True, [])


@pytest.mark.parametrize("other", [{"topic_id": 9}, {"reader": 2}], ids=["topic", "reader"])
def test_the_same_name_for_something_else_needs_a_new_session(other: dict[str, int]) -> None:
    """A topic was created again, or a partition released and added: its ends have to be told."""
    session = wanting(partition(ONE), partition(TWO))
    granted(session)
    session.leave(ONE)
    session.want(partition(ONE, **other))
    turn = session.next_turn()
    assert (turn.place, names(turn)) == (SessionPlace(7, FULL), [TWO, ONE])


def test_a_session_that_is_renewed_during_a_request_stays_so() -> None:
    session = wanting(partition(ONE))
    turn = session.next_turn()
    session.leave(ONE)
    session.want(partition(ONE, reader=2))
    assert session.take(turn, Fetched(0, {}, 7))
    assert session.next_turn().place == SessionPlace(7, FULL)


def test_a_response_that_is_withheld_says_nothing_of_what_was_named() -> None:
    session = wanting(partition(ONE))
    turn = session.next_turn()
    session.take(turn, Fetched(0, {}, 0, is_withheld=True))
    granted(session)
    session.take(session.next_turn(), Fetched(0, {}, 7, is_withheld=True))
    session.want(partition(ONE, 2))
    turn = session.next_turn()
    assert turn.place == SessionPlace(7, 2)
    session.take(turn, Fetched(0, {}, 7, is_withheld=True))
    assert session.next_turn().place == SessionPlace(7, FULL)


def test_epochs_begin_anew_behind_the_last_one() -> None:
    session = wanting(partition(ONE))
    granted(session)
    session._place = SessionPlace(7, 2**31 - 1)
    granted(session)
    assert session.next_turn().place == SessionPlace(7, 1)


def test_what_was_said_is_that_of_the_last_request() -> None:
    session = wanting(partition(ONE), partition(TWO))
    granted(session)
    session.want(partition(ONE, 3))
    session.leave(TWO)
    session.want(partition(OTHER))
    assert session.said(ONE) == partition(ONE)
    assert session.said(TWO) == partition(TWO)
    assert session.said(OTHER) is None
    session.next_turn()
    assert session.said(ONE) == partition(ONE, 3)
    assert session.said(TWO) is None


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("want"),
            st.sampled_from(PLACES),
            st.integers(0, 2),
            st.integers(1, 2),
            st.integers(0, 1),
        ),
        st.tuples(st.just("leave"), st.sampled_from(PLACES)),
        st.tuples(
            st.sampled_from(
                ["fetch", "fetch", "lose the request", "lose the response", "evict", "withhold"]
            )
        ),
        st.tuples(st.just("grant"), st.booleans()),
        st.tuples(st.just("during"), st.sampled_from(PLACES), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(STEPS, st.sampled_from([1, 2, 1_000]))
def test_a_broker_always_fetches_what_is_wanted(steps: list[tuple[object, ...]], most: int) -> None:
    """Whatever is lost on the way, whoever comes and goes, and however few a request names."""
    with mock.patch.object(requests, "_MOST_NAMED", most):
        go_through(steps)


def go_through(steps: list[tuple[object, ...]]) -> None:
    session, broker = FetchSession(BROKER), BrokerSessions()
    wanted: dict[TopicPartition, FetchPartition] = {}
    meanwhile: list[FetchPartition] = []

    def want(each: FetchPartition) -> None:
        session.want(each)
        wanted[each.where] = each

    def fetch(kind: object) -> None:
        if not session:
            return
        turn = session.next_turn()
        expected = dict(wanted)
        request = FetchRequest(
            turn.named,
            IsolationLevel.READ_UNCOMMITTED,
            LIMITS,
            session.topics,
            turn.place,
            turn.forgotten,
            has_ids=turn.has_ids,
        )
        for each in meanwhile:
            want(each)
        meanwhile.clear()
        if kind == "lose the request":
            session.fail()
            return
        asked = broker.begin(request)
        if isinstance(asked, ErrorCode):
            assert asked is not ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
            assert not session.take(turn, Fetched(asked, {}))
            return
        asked_for = {each.where: each for each in asked}
        if turn.has_more:
            assert len(turn.named) + len(turn.forgotten) <= requests._MOST_NAMED
            unknown = {where for where in expected if session.said(where) != expected[where]}
            expected = {where: each for where, each in expected.items() if where not in unknown}
            asked_for = {where: asked_for[where] for where in asked_for.keys() & expected.keys()}
        assert asked_for == expected
        found = {each.where: FetchedPartition(0, b"", 5, 5, ()) for each in asked}
        response = broker.end(request, found)
        if kind == "lose the response":
            session.fail()
        elif kind == "withhold" and not turn.is_full:
            assert session.take(turn, Fetched(0, {}, response.session_id, is_withheld=True))
        else:
            assert session.take(turn, response)

    for step in steps:
        match step:
            case ("want", TopicPartition() as where, int(offset), int(reader), int(topic)):
                want(partition(where, offset, reader=reader, topic_id=topic))
            case ("leave", TopicPartition() as where):
                session.leave(where)
                wanted.pop(where, None)
            case ("grant", bool(grants)):
                broker.grants = grants
            case ("during", TopicPartition() as where, int(offset)):
                meanwhile.append(partition(where, offset))
            case ("evict",):
                broker.sessions.clear()
            case (kind,):
                fetch(kind)
    for _ in range(2 + 2 * len(PLACES)):  # the first one may find that its session is gone
        fetch("fetch")
    assert not session or not session.next_turn().has_more
    assert len(broker.sessions) <= 1 + sum(step == ("lose the response",) for step in steps)
