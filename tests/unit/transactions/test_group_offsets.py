"""Where groups have got to: whom to ask next, and what an answer means for who waits."""

from __future__ import annotations

import pytest

from aioproducer.errors import (
    GroupAuthorizationFailedError,
    InvalidRequestError,
    UnsupportedVersionError,
)
from aioproducer.model import OffsetAndMetadata, TopicPartition
from aioproducer.transactions.group_offsets import GroupOffsets, PendingFetch
from aioproducer.transactions.questions import (
    Answer,
    Coordinator,
    CoordinatorType,
    FetchOffsets,
    FindCoordinator,
    Question,
)
from aioproducer.transactions.verdicts import Verdict
from tests.unit.transactions.world import (
    CONSUMED,
    GROUP_UNAUTHORIZED,
    HOME,
    LOADING,
    NOT_COORDINATOR,
    OTHER,
    UNSTABLE,
)

PLACES = frozenset(CONSUMED)
HERE = "host1:9092"
INVALID_REQUEST = 42


class World(GroupOffsets):
    """And what is asked."""

    def __init__(self) -> None:
        super().__init__("shop")

    def ask(self) -> Question:
        question = self.next_question()
        assert question is not None
        self.asked(question)
        return question

    def find(self, group_id: str = "readers") -> None:
        """The coordinator is found."""
        question = self.ask()
        assert question == FindCoordinator(Coordinator(CoordinatorType.GROUP, group_id))
        assert self.coordinator(question) is None, "any broker knows"
        assert self.answered(question, Answer(node=HOME), HERE) is Verdict.DONE

    def exchange(self, answer: Answer) -> tuple[Question, Verdict]:
        question = self.ask()
        return question, self.answered(question, answer, HERE)


def fetch(world: World, group_id: str = "readers") -> PendingFetch:
    return world.fetch(group_id, PLACES)


def known(*fetches: PendingFetch) -> list[PendingFetch]:
    return [each for each in fetches if each.offsets == CONSUMED]


def test_the_coordinator_is_found_once_and_asked_for_each() -> None:
    world = World()
    assert world.next_question() is None
    one, two = fetch(world), fetch(world)
    world.find()
    for pending in (one, two):
        question = world.ask()
        assert question is pending.question
        assert world.coordinator(question) == HOME
        assert pending not in known(one, two)
        assert world.answered(question, Answer(offsets=CONSUMED), HERE) is Verdict.DONE
        assert pending in known(one, two)
        assert pending.error is None
    assert world.next_question() is None
    assert world.obstacle is None


def test_no_offsets_are_an_answer() -> None:
    world = World()
    pending = fetch(world)
    world.find()
    world.exchange(Answer())
    assert pending.offsets == {}


def test_offsets_that_a_transaction_would_change_are_asked_for_again_and_hold_up_nobody() -> None:
    world = World()
    unstable, stable = fetch(world), fetch(world, "others")
    world.find()
    world.find("others")
    place = TopicPartition("events", 0)
    for _ in range(3):
        question, verdict = world.exchange(Answer(UNSTABLE, place=place))
        assert verdict is Verdict.AGAIN
        assert question is unstable.question
        if stable.offsets is None:
            assert world.exchange(Answer(offsets={}))[0] is stable.question
            assert stable.offsets == {}
        else:
            assert "UNSTABLE_OFFSET_COMMIT" in str(world.obstacle)
            assert "shop: FetchOffsets of group 'readers' for events-0 on host1" in str(
                world.obstacle
            )
    world.exchange(Answer(offsets=CONSUMED))
    assert unstable.offsets == CONSUMED


def test_a_coordinator_that_is_not_found_holds_up_no_other_group() -> None:
    world = World()
    fetch(world)
    other = fetch(world, "others")
    assert world.exchange(Answer(LOADING))[1] is Verdict.AGAIN
    world.find("others")
    assert world.exchange(Answer(LOADING))[1] is Verdict.AGAIN, "in turn"
    world.exchange(Answer(offsets=CONSUMED))
    assert other.offsets == CONSUMED
    world.find()


@pytest.mark.parametrize("how", ["moved", "unanswered", "unreachable"])
def test_a_coordinator_that_is_none_any_more_is_looked_for(how: str) -> None:
    world = World()
    pending = fetch(world)
    world.find()
    question = world.ask()
    if how == "moved":
        assert world.answered(question, Answer(NOT_COORDINATOR), HERE) is Verdict.ELSEWHERE
    elif how == "unanswered":
        world.unanswered(question)
    else:
        world.unreachable(question)
    assert world.exchange(Answer(node=OTHER))[1] is Verdict.DONE
    question = world.ask()
    assert world.coordinator(question) == OTHER
    world.answered(question, Answer(offsets=CONSUMED), HERE)
    assert pending.offsets == CONSUMED


def test_a_search_without_an_answer_is_asked_again() -> None:
    world = World()
    fetch(world)
    question = world.ask()
    world.unanswered(question)
    world.unreachable(question)
    world.find()


def test_what_a_coordinator_refuses_fails_that_fetch_alone() -> None:
    world = World()
    refused, other = fetch(world), fetch(world)
    world.find()
    assert world.exchange(Answer(INVALID_REQUEST))[1] is Verdict.ABORTABLE
    assert isinstance(refused.error, InvalidRequestError)
    assert refused.offsets is None
    world.exchange(Answer(offsets=CONSUMED))
    assert (other.offsets, other.error) == (CONSUMED, None)


def test_a_group_that_may_not_be_looked_for_fails_all_its_fetches_and_no_others() -> None:
    world = World()
    refused = [fetch(world), fetch(world)]
    other = fetch(world, "others")
    world.exchange(Answer(GROUP_UNAUTHORIZED))
    for each in refused:
        assert isinstance(each.error, GroupAuthorizationFailedError)
    assert other.error is None
    world.find("others")


def test_brokers_that_know_no_such_request_fail_the_fetch() -> None:
    world = World()
    pending = fetch(world)
    world.find()
    error = UnsupportedVersionError("too old")
    world.refused(world.ask(), error)
    assert pending.error is error
    assert world.next_question() is None


def test_nobody_asks_for_who_gave_up_and_a_late_answer_is_nothing_to_the_next() -> None:
    world = World()
    gone = fetch(world)
    world.find()
    late = world.ask()
    world.give_up(gone)
    world.give_up(gone)
    assert world.next_question() is None
    pending = fetch(world)
    old = {TopicPartition("events", 0): OffsetAndMetadata(3)}
    world.answered(late, Answer(offsets=old), HERE)
    assert (gone.offsets, pending.offsets) == (None, None)
    question, _ = world.exchange(Answer(offsets=CONSUMED))
    assert isinstance(question, FetchOffsets)
    assert pending.offsets == CONSUMED
