"""Where groups have got to: whom to ask next, and what an answer means for who waits."""

from __future__ import annotations

import pytest

from aioproducer.engine.transactions.group_offsets import GroupOffsets, PendingFetch
from aioproducer.engine.transactions.requests import (
    Coordinator,
    CoordinatorRequest,
    CoordinatorType,
    FindCoordinator,
    OffsetFetch,
    Reaction,
    Response,
)
from aioproducer.errors import (
    BrokerConnectionError,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    UnsupportedVersionError,
)
from aioproducer.model import OffsetAndMetadata, TopicPartition
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
LOST = BrokerConnectionError("lost")


class GroupOffsetsExchange(GroupOffsets):
    """The offsets of groups, with the requests that the test sends and answers."""

    def __init__(self) -> None:
        super().__init__("shop")

    def ask(self) -> CoordinatorRequest:
        request = self.next_request()
        assert request is not None
        self.sent(request)
        return request

    def find(self, group_id: str = "readers") -> None:
        """The coordinator is found."""
        request = self.ask()
        assert request == FindCoordinator(Coordinator(CoordinatorType.GROUP, group_id))
        assert self.node_for(request) is None, "any broker knows"
        assert self.handle_response(request, Response(node=HOME), HERE) is Reaction.DONE

    def exchange(self, answer: Response) -> tuple[CoordinatorRequest, Reaction]:
        request = self.ask()
        return request, self.handle_response(request, answer, HERE)


def fetch(world: GroupOffsetsExchange, group_id: str = "readers") -> PendingFetch:
    return world.fetch(group_id, PLACES)


def known(*fetches: PendingFetch) -> list[PendingFetch]:
    return [each for each in fetches if each.offsets == CONSUMED]


def test_the_coordinator_is_found_once_and_asked_for_each() -> None:
    world = GroupOffsetsExchange()
    assert world.next_request() is None
    one, two = fetch(world), fetch(world)
    world.find()
    for pending in (one, two):
        request = world.ask()
        assert request is pending.request
        assert world.node_for(request) == HOME
        assert pending not in known(one, two)
        assert world.handle_response(request, Response(offsets=CONSUMED), HERE) is Reaction.DONE
        assert pending in known(one, two)
        assert pending.error is None
    assert world.next_request() is None
    assert world.last_error is None


def test_no_offsets_are_an_answer() -> None:
    world = GroupOffsetsExchange()
    pending = fetch(world)
    world.find()
    world.exchange(Response())
    assert pending.offsets == {}


def test_offsets_that_a_transaction_would_change_are_asked_for_again_and_hold_up_nobody() -> None:
    world = GroupOffsetsExchange()
    unstable, stable = fetch(world), fetch(world, "others")
    world.find()
    world.find("others")
    place = TopicPartition("events", 0)
    for _ in range(3):
        request, reaction = world.exchange(Response(UNSTABLE, partition=place))
        assert reaction is Reaction.RETRY
        assert request is unstable.request
        if stable.offsets is None:
            assert world.exchange(Response(offsets={}))[0] is stable.request
            assert stable.offsets == {}
        else:
            assert "UNSTABLE_OFFSET_COMMIT" in str(world.last_error)
            assert "shop: OffsetFetch of group 'readers' for events-0 on host1" in str(
                world.last_error
            )
    world.exchange(Response(offsets=CONSUMED))
    assert unstable.offsets == CONSUMED


def test_a_coordinator_that_is_not_found_holds_up_no_other_group() -> None:
    world = GroupOffsetsExchange()
    fetch(world)
    other = fetch(world, "others")
    assert world.exchange(Response(LOADING))[1] is Reaction.RETRY
    world.find("others")
    assert world.exchange(Response(LOADING))[1] is Reaction.RETRY, "in turn"
    world.exchange(Response(offsets=CONSUMED))
    assert other.offsets == CONSUMED
    world.find()


@pytest.mark.parametrize("how", ["moved", "unanswered", "unreachable"])
def test_a_coordinator_that_is_none_any_more_is_looked_for(how: str) -> None:
    world = GroupOffsetsExchange()
    pending = fetch(world)
    world.find()
    request = world.ask()
    if how == "moved":
        assert (
            world.handle_response(request, Response(NOT_COORDINATOR), HERE)
            is Reaction.FIND_COORDINATOR
        )
    elif how == "unanswered":
        world.response_lost(request, LOST)
    else:
        world.unreachable(request, LOST)
    assert world.exchange(Response(node=OTHER))[1] is Reaction.DONE
    request = world.ask()
    assert world.node_for(request) == OTHER
    world.handle_response(request, Response(offsets=CONSUMED), HERE)
    assert pending.offsets == CONSUMED


def test_a_search_without_an_answer_is_asked_again() -> None:
    world = GroupOffsetsExchange()
    fetch(world)
    request = world.ask()
    world.response_lost(request, LOST)
    world.unreachable(request, LOST)
    world.find()


def test_what_a_coordinator_refuses_fails_that_fetch_alone() -> None:
    world = GroupOffsetsExchange()
    refused, other = fetch(world), fetch(world)
    world.find()
    assert world.exchange(Response(INVALID_REQUEST))[1] is Reaction.ABORT
    assert isinstance(refused.error, InvalidRequestError)
    assert refused.offsets is None
    world.exchange(Response(offsets=CONSUMED))
    assert (other.offsets, other.error) == (CONSUMED, None)


def test_a_group_that_may_not_be_looked_for_fails_all_its_fetches_and_no_others() -> None:
    world = GroupOffsetsExchange()
    refused = [fetch(world), fetch(world)]
    other = fetch(world, "others")
    world.exchange(Response(GROUP_UNAUTHORIZED))
    for each in refused:
        assert isinstance(each.error, GroupAuthorizationFailedError)
    assert other.error is None
    world.find("others")


def test_brokers_that_know_no_such_request_fail_the_fetch() -> None:
    world = GroupOffsetsExchange()
    pending = fetch(world)
    world.find()
    error = UnsupportedVersionError("too old")
    world.request_failed(world.ask(), error)
    assert pending.error is error
    assert world.next_request() is None


def test_nobody_asks_for_who_gave_up_and_a_late_answer_is_nothing_to_the_next() -> None:
    world = GroupOffsetsExchange()
    gone = fetch(world)
    world.find()
    late = world.ask()
    world.give_up(gone)
    world.give_up(gone)
    assert world.next_request() is None
    pending = fetch(world)
    old = {TopicPartition("events", 0): OffsetAndMetadata(3)}
    world.handle_response(late, Response(offsets=old), HERE)
    assert (gone.offsets, pending.offsets) == (None, None)
    request, _ = world.exchange(Response(offsets=CONSUMED))
    assert isinstance(request, OffsetFetch)
    assert pending.offsets == CONSUMED
