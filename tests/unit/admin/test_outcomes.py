"""The outcomes of one call about several topics."""

from __future__ import annotations

import pytest

from aioproducer.admin.outcomes import Outcomes, RecentTopics
from aioproducer.admin.requests import Answer
from aioproducer.errors import (
    GroupAuthorizationFailedError,
    InvalidConfigError,
    NotControllerError,
    PolicyViolationError,
    ProducerTimeoutError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

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
