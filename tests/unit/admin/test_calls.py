"""The calls of an Admin: their arguments, and the outcomes of one call about several topics."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from typing import Any

import pytest

from aioproducer.admin import Append, NewTopic, PartitionLag, Subtract
from aioproducer.admin.outcomes import Outcomes, RecentTopics
from aioproducer.admin.requests import Answer
from aioproducer.admin.values import (
    by_name,
    checked_assignment,
    checked_changes,
    checked_groups,
    checked_names,
    checked_offsets,
    checked_partitions,
    checked_positions,
    checked_resources,
    checked_topics,
)
from aioproducer.errors import (
    GroupAuthorizationFailedError,
    InvalidConfigError,
    InvalidGroupIdError,
    InvalidOffsetError,
    InvalidPartitionError,
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NotControllerError,
    PolicyViolationError,
    ProducerError,
    ProducerTimeoutError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.model import TopicPartition


def test_a_new_topic_is_checked_and_frozen() -> None:
    topic = NewTopic("orders", assignment={1: [2, 1], 0: [1, 2]}, configs={"a": 1, "b": False})
    assert topic.assignment == {0: (1, 2), 1: (2, 1)}
    assert topic.configs == {"a": "1", "b": "false"}
    assert pickle.loads(pickle.dumps(topic)) == topic
    with pytest.raises(AttributeError):
        topic.name = "x"  # type: ignore[misc]


class Days(IntEnum):
    WEEK = 7


class Ratio(float):
    def __repr__(self) -> str:
        return "a ratio"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3_600_000, "3600000"),
        (3_600_000.0, "3600000"),
        (60 * 60 * 1e3, "3600000"),
        (1e18, "1000000000000000000"),
        (-1.0, "-1"),
        (-0.0, "0"),
        (0.5, "0.5"),
        (Ratio(0.25), "0.25"),
        (Days.WEEK, "7"),
        (False, "false"),
        ("3600000.0", "3600000.0"),
    ],
)
def test_numbers_of_a_configuration_are_texts_that_kafka_reads(value: Any, text: str) -> None:
    """An integer setting takes no ``3600000.0``; one of a double takes ``1``."""
    assert NewTopic("a", configs={"x": value}).configs == {"x": text}
    assert checked_changes({"a": {"x": value}}) == {"a": {"x": text}}
    assert checked_changes({"a": {"x": Append(value)}}) == {"a": {"x": Append(text)}}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, Decimal(1), b"1"])
def test_values_of_a_configuration_that_no_setting_takes(value: Any) -> None:
    with pytest.raises(InvalidConfigError, match=r"topic 'a', x: a value is a str .* or a finite"):
        NewTopic("a", configs={"x": value})


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: NewTopic("a b"), InvalidTopicError, "not 'a b'"),
        (lambda: NewTopic("a", 0), InvalidPartitionsError, "topic 'a': partitions .* not 0"),
        (lambda: NewTopic("a", True), InvalidPartitionsError, "not True"),
        (lambda: NewTopic("a", 2**31), InvalidPartitionsError, "from 1 to 2147483647"),
        (lambda: NewTopic("a", 1, 2**15), InvalidReplicationFactorError, "'a'.* to 32767"),
        (
            lambda: NewTopic("a", 1, assignment={0: [1]}),
            InvalidReplicaAssignmentError,
            "'a': .*leave out partitions",
        ),
        (
            lambda: NewTopic("a", assignment=[[1]]),  # type: ignore[arg-type]
            InvalidReplicaAssignmentError,
            "a mapping of partitions",
        ),
        (lambda: NewTopic("a", assignment={}), InvalidReplicaAssignmentError, "from 0 on"),
        (lambda: NewTopic("a", assignment={1: [1]}), InvalidReplicaAssignmentError, "from 0 on"),
        (lambda: NewTopic("a", assignment={0: []}), InvalidReplicaAssignmentError, "one replica"),
        (
            lambda: NewTopic("a", assignment={0: [1], 1: [2, 2]}),
            InvalidReplicaAssignmentError,
            r"partition 1: .*different brokers, not on \[2, 2\]",
        ),
        (lambda: NewTopic("a", assignment={0: [-1]}), InvalidReplicaAssignmentError, "not -1"),
        (
            lambda: NewTopic("a", configs={"x": None}),  # type: ignore[dict-item]
            InvalidConfigError,
            "topic 'a', x: a value is",
        ),
        (lambda: NewTopic("a", configs={"": 1}), InvalidConfigError, "by names"),
        (lambda: NewTopic("a", configs={"x": "\ud800"}), InvalidConfigError, "topic 'a', x"),
        (lambda: NewTopic("a", configs={"x": "y" * 40_000}), InvalidConfigError, "32767 bytes"),
        (lambda: by_name([NewTopic("a"), NewTopic("a")]), InvalidTopicError, "'a' is named twice"),
        (lambda: by_name(["a"]), InvalidTopicError, "NewTopic objects, not str"),  # type: ignore[list-item]
        (lambda: checked_topics(["a", 1]), InvalidTopicError, "of type int"),
        (lambda: checked_groups(["g", ""]), InvalidGroupIdError, "not ''"),
        (lambda: checked_groups([1]), InvalidGroupIdError, "not 1"),
        (lambda: checked_names(["a", ""]), InvalidConfigError, "not ''"),
        (lambda: checked_resources(["a", -1]), InvalidConfigError, "not -1"),
        (lambda: checked_resources([True]), InvalidConfigError, "not True"),
        (lambda: checked_changes({"a b": {}}), InvalidTopicError, "'a b'"),
        (lambda: checked_changes({1: {"x": Append(b"y")}}), InvalidConfigError, "1, x: .*bytes"),  # type: ignore[arg-type]
        (lambda: checked_offsets({("a", -1): 0}), InvalidPartitionError, "not -1"),
        (lambda: checked_offsets({"a": 0}), InvalidOffsetError, "not 'a'"),
        (lambda: checked_offsets({("a", 0): -2}), InvalidOffsetError, "a-0: .*not -2"),
        (lambda: checked_offsets({("a", 0): None}), InvalidOffsetError, "not None"),
        (lambda: checked_partitions("ab"), InvalidOffsetError, "not 'a'"),
        (lambda: checked_partitions([("a", -1)]), InvalidPartitionError, "not -1"),
        (lambda: checked_positions({("a", 0): 7}), InvalidOffsetError, "a-0: .*'end' .*not 7"),
        (lambda: checked_positions({("a", 0): []}), InvalidOffsetError, r"not \[\]"),
        (lambda: checked_positions({("a", 0): datetime.min}), InvalidOffsetError, "not datetime"),
    ],
)
def test_what_cannot_be(make: Callable[[], Any], error: type[ProducerError], said: str) -> None:
    with pytest.raises(error, match=said) as caught:
        make()
    assert isinstance(caught.value, ProducerError)


def test_one_or_several() -> None:
    assert checked_topics("orders") == ("orders",)
    assert checked_topics(["b", "a", "b"]) == ("b", "a")
    assert checked_groups("readers") == ("readers",)
    assert checked_resources("orders") == ("orders",)
    assert checked_resources(3) == (3,)
    assert checked_resources(["3", 3]) == ("3", 3)
    assert checked_names(None) is None
    assert checked_names("a") == ("a",)
    where = TopicPartition("a", 1)
    assert checked_offsets({("a", 1): -1}) == {where: -1}
    assert checked_partitions([("a", 1), where, ("a", 0)]) == (where, ("a", 0))
    assert checked_positions({where: datetime(1969, 1, 1)}) == {where: 0}


def test_the_assignment_of_added_partitions() -> None:
    assert checked_assignment({7: [1], 6: [2]}, "t", 6) == {6: (2,), 7: (1,)}
    with pytest.raises(InvalidReplicaAssignmentError, match=r"t: .*each partition from 6 on"):
        checked_assignment({0: [1]}, "t", 6)


def test_changes_are_text() -> None:
    changes = {"orders": {"a": 1, "b": None, "c": Append("x"), "d": Subtract("y")}, 1: {"e": 0.5}}
    assert checked_changes(changes) == {
        "orders": {"a": "1", "b": None, "c": Append("x"), "d": Subtract("y")},
        1: {"e": "0.5"},
    }


@pytest.mark.parametrize(("committed", "end", "lag"), [(3, 10, 7), (11, 10, 0), (3, None, None)])
def test_a_lag(committed: int, end: int | None, lag: int | None) -> None:
    assert PartitionLag(committed, end).lag == lag


UNKNOWN_TOPIC, TIMED_OUT, EXISTS, BAD_CONFIG, NOT_CONTROLLER, POLICY = 3, 7, 36, 40, 41, 44
GOOD = Answer(value="done")


def outcomes(*keys: str, late: bool = False, changes: bool = True) -> Outcomes[str]:
    return Outcomes(
        keys, lambda key: f"topic {key!r}", "ALTER for the topic", lambda _: late, changes=changes
    )


def test_the_values_come_in_the_order_of_the_keys() -> None:
    some = outcomes("b", "a")
    assert list(some.pending) == ["b", "a"]
    some.take({"a": Answer(value=1)})
    assert list(some.pending) == ["b"]
    some.check()
    some.take({"b": Answer(value=2)})
    assert list(some.results().items()) == [("b", 2), ("a", 1)]


def test_an_error_that_may_pass_keeps_its_key_pending() -> None:
    some = outcomes("a", "b", "c")
    some.take({"a": Answer(NOT_CONTROLLER), "b": GOOD, "c": Answer(BAD_CONFIG)})
    assert some.pending == ("a",)
    with pytest.raises(NotControllerError, match="topic 'a': NOT_CONTROLLER"):
        some.check()
    some.take({"a": GOOD})
    some.check()
    with pytest.raises(InvalidConfigError, match="topic 'c'"):
        some.results()


@pytest.mark.parametrize("late", [False, True])
def test_an_unknown_topic_is_final_unless_brokers_have_still_to_learn_of_it(late: bool) -> None:
    some = outcomes("a", late=late)
    some.take({"a": Answer(UNKNOWN_TOPIC)})
    assert some.pending == (("a",) if late else ())
    if not late:
        with pytest.raises(UnknownTopicOrPartitionError, match=r"topic 'a'.*does not exist"):
            some.results()


def test_the_first_error_is_raised_and_tells_of_the_others() -> None:
    some = outcomes("a", "b", "c", "d")
    some.take({"d": Answer(POLICY, "no d"), "c": GOOD, "b": Answer(POLICY, "no b"), "a": GOOD})
    with pytest.raises(PolicyViolationError, match="topic 'b': POLICY_VIOLATION: no b") as caught:
        some.results()
    assert caught.value.__notes__ == [
        "also failed: topic 'd': POLICY_VIOLATION: no d",
        "succeeded: topic 'a', topic 'c'",
    ]


def test_many_errors_are_counted() -> None:
    keys = [f"t{number}" for number in range(100)]
    some = outcomes(*keys)
    some.take({key: Answer(POLICY) if int(key[1:]) % 2 else GOOD for key in keys})
    with pytest.raises(PolicyViolationError, match="'t1'") as caught:
        some.results()
    notes = caught.value.__notes__
    assert len(notes) == 22
    assert notes[-2] == "and 29 more failed"
    assert notes[-1].endswith(", topic 't38', and 30 more")


def test_the_error_of_the_whole_call_is_that_of_every_pending_key() -> None:
    some = outcomes("a", "b", "c")
    some.take({"a": GOOD})
    error = ProducerTimeoutError("creating topics took longer than 1 s: silence")
    some.give_up(error)
    with pytest.raises(ProducerTimeoutError) as caught:
        some.results()
    assert caught.value is error
    assert error.__notes__ == ["succeeded: topic 'a'"]
    assert not error.may_have_been_written


def test_an_error_after_a_lost_response_says_so() -> None:
    some = outcomes("a", "b")
    some.unanswered(["a"])
    some.take({"a": Answer(EXISTS, "Topic 'a' already exists."), "b": Answer(EXISTS)})
    with pytest.raises(
        TopicAlreadyExistsError, match=r"already exists.*got no response.*check"
    ) as one:
        some.results()
    assert one.value.may_have_been_written
    assert "got no response" not in one.value.__notes__[0]


def test_a_broker_that_ran_out_of_time_may_have_done_it() -> None:
    some = outcomes("a")
    some.take({"a": Answer(TIMED_OUT)})
    assert some.pending == ("a",)
    some.take({"a": Answer(EXISTS)})
    with pytest.raises(TopicAlreadyExistsError, match="got no response") as caught:
        some.results()
    assert caught.value.may_have_been_written


def test_a_description_leaves_no_doubt() -> None:
    some = outcomes("a", changes=False)
    some.unanswered(["a"])
    some.take({"a": Answer(TIMED_OUT)})
    some.take({"a": Answer(POLICY)})
    with pytest.raises(PolicyViolationError, match=r"POLICY_VIOLATION$") as caught:
        some.results()
    assert not caught.value.may_have_been_written


def test_a_timeout_after_a_lost_response_says_so() -> None:
    some = outcomes("a", "b")
    some.unanswered(["b"])
    some.give_up(ProducerTimeoutError("took longer than 1 s"))
    with pytest.raises(ProducerTimeoutError, match=r"1 s .*got no response") as caught:
        some.results()
    assert caught.value.may_have_been_written


@pytest.mark.parametrize(
    ("code", "error"), [(29, TopicAuthorizationFailedError), (30, GroupAuthorizationFailedError)]
)
def test_a_missing_permission_is_named(code: int, error: type[Exception]) -> None:
    """The advice of the error table is for producers."""
    some = outcomes("a")
    some.take({"a": Answer(code, "Not authorized")})
    with pytest.raises(error, match=r"topic 'a': .*needs the permission ALTER for the topic$"):
        some.results()


def test_a_topic_is_recent_until_a_broker_knows_all_of_it() -> None:
    recent = RecentTopics()
    assert not recent.missing("a", 0, 0.0)
    recent.changed("a", 3, 10.0)
    assert recent.missing("a", 0, 10.0)
    assert recent.missing("a", 2, 39.9)
    assert not recent.missing("a", 3, 10.0)
    assert not recent.missing("a", 0, 40.0)
    recent.changed("a", 6, 20.0)
    assert recent.missing("a", 3, 40.0)
    recent.deleted("a")
    assert not recent.missing("a", 0, 20.0)


def test_old_changes_are_forgotten() -> None:
    recent = RecentTopics()
    for number in range(1000):
        recent.changed(f"t{number}", 1, float(number))
    assert len(vars(recent)["_changes"]) <= 31
