"""What telemetry does next, and when: with a clock that is a number."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from aioproducer.engine.telemetry.subscription import (
    DEFAULT_INTERVAL,
    PUSH_REACTIONS,
    TRANSITIONS,
    Reaction,
    Subscription,
    SubscriptionResponse,
    TelemetryState,
    TelemetryStates,
    producer_groups,
    selected,
)
from aioproducer.errors import IllegalStateError, KafkaError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation.tuning import TELEMETRY_FIRST_PAUSE
from tests.support.clock import NoJitter

State = TelemetryState
NOW = 1000.0
ID = UUID(int=7)
INTERVAL = 10.0
ZSTD = 4


def response(
    code: int = 0,
    *,
    instance_id: UUID | None = ID,
    prefixes: tuple[str, ...] = ("",),
    interval: float = INTERVAL,
) -> SubscriptionResponse:
    subscription = Subscription(
        5, interval, (ZSTD, 3), 1000, True, selected(prefixes, producer_groups())
    )
    return SubscriptionResponse(code, instance_id, subscription)


def asking(random: Random | None = None) -> TelemetryStates:
    states = TelemetryStates(random or NoJitter())
    states.connected(NOW)
    states.asked()
    return states


def subscribed() -> TelemetryStates:
    states = asking()
    states.subscribed(response(), NOW)
    return states


def pushing() -> TelemetryStates:
    states = subscribed()
    states.pushed()
    return states


def at(states: TelemetryStates) -> tuple[TelemetryState, float]:
    return states.state, states.due


# --- the subscription -------------------------------------------------------------------------


def test_nothing_is_due_without_a_connection() -> None:
    assert at(TelemetryStates(NoJitter())) == (State.SUBSCRIPTION_NEEDED, inf)


def test_the_first_request_leaves_the_first_records_alone() -> None:
    states = TelemetryStates(NoJitter())
    states.connected(NOW)
    assert at(states) == (State.SUBSCRIPTION_NEEDED, NOW + TELEMETRY_FIRST_PAUSE)
    states.connected(NOW + 0.5)
    assert states.due == NOW + TELEMETRY_FIRST_PAUSE


def test_a_caller_that_waits_for_the_id_shortens_the_pause() -> None:
    states = TelemetryStates(NoJitter())
    states.hurry(NOW)
    assert states.due == NOW
    states.asked()
    states.hurry(NOW)
    assert at(states) == (State.SUBSCRIPTION_IN_PROGRESS, inf)
    states.lost(NOW)
    states.hurry(NOW)
    assert states.due > NOW


class Luck(Random):
    """Draws one number."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def random(self) -> float:
        return self._number


@pytest.mark.parametrize(("luck", "factor"), [(0.0, 0.5), (0.5, 1.0), (0.999, 1.499)])
def test_the_first_push_is_early_or_late(luck: float, factor: float) -> None:
    states = asking(Luck(luck))
    states.subscribed(response(), NOW)
    assert states.state is State.PUSH_NEEDED
    assert states.due == pytest.approx(NOW + INTERVAL * factor)
    assert states.client_instance_id == ID
    assert states.subscription == response().subscription


def test_no_metrics_are_asked_for() -> None:
    states = asking()
    states.subscribed(response(prefixes=("org.apache.kafka.consumer.",)), NOW)
    assert at(states) == (State.SUBSCRIPTION_NEEDED, NOW + INTERVAL)
    assert states.client_instance_id == ID


def test_the_id_never_changes() -> None:
    states = subscribed()
    states.pushed()
    states.push_ended(int(ErrorCode.UNKNOWN_SUBSCRIPTION_ID), 100, ZSTD, NOW)
    states.asked()
    states.subscribed(response(instance_id=UUID(int=8)), NOW)
    assert states.client_instance_id == ID


def test_without_an_id_there_is_nothing_to_push() -> None:
    states = asking()
    states.subscribed(response(instance_id=None), NOW)
    assert at(states) == (State.SUBSCRIPTION_NEEDED, NOW + INTERVAL)
    states.asked()
    states.subscribed(response(), NOW)
    states.pushed()
    states.push_ended(int(ErrorCode.UNKNOWN_SUBSCRIPTION_ID), 100, ZSTD, NOW)
    states.asked()
    states.subscribed(response(instance_id=None), NOW)  # the KIP allows it: the client has one
    assert (states.state, states.client_instance_id) == (State.PUSH_NEEDED, ID)


def test_a_lost_request_is_repeated_later_and_later() -> None:
    states = asking()
    pauses = []
    for _ in range(20):
        states.lost(NOW)
        assert states.state is State.SUBSCRIPTION_NEEDED
        pauses.append(states.due - NOW)
        states.asked()
    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == DEFAULT_INTERVAL
    states.subscribed(response(prefixes=()), NOW)
    states.asked()
    states.lost(NOW)
    assert states.due == NOW + 1


@pytest.mark.parametrize(("luck", "pause"), [(0.0, 0.8), (0.5, 1.0), (0.999, 1.1996)])
def test_clients_repeat_a_lost_request_at_different_times(luck: float, pause: float) -> None:
    states = asking(Luck(luck))
    states.lost(NOW)
    assert states.due == pytest.approx(NOW + pause)


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, False),
        (ErrorCode.INVALID_REQUEST, True),
        (ErrorCode.UNSUPPORTED_VERSION, True),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True),
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, True),
        (32000, True),
    ],
)
def test_the_subscription_is_refused(code: int, ends: bool) -> None:
    states = asking()
    states.subscribed(response(int(code)), NOW)
    if ends:
        assert at(states) == (State.TERMINATED, inf)
        assert isinstance(states.refusal, KafkaError)
        assert states.refusal.code == int(code)
    else:
        assert at(states) == (State.SUBSCRIPTION_NEEDED, NOW + DEFAULT_INTERVAL)


# --- pushes -----------------------------------------------------------------------------------


def test_pushes_follow_at_the_interval() -> None:
    states = pushing()
    assert at(states) == (State.PUSH_IN_PROGRESS, inf)
    states.push_ended(0, 100, ZSTD, NOW + 1)
    assert at(states) == (State.PUSH_NEEDED, NOW + 1 + INTERVAL)


def test_a_lost_push_is_followed_by_the_next_one() -> None:
    states = pushing()
    states.lost(NOW)
    assert at(states) == (State.PUSH_NEEDED, NOW + INTERVAL)


@pytest.mark.parametrize(
    ("code", "state", "pause"),
    [
        (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, State.SUBSCRIPTION_NEEDED, 0),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, State.PUSH_NEEDED, INTERVAL),
        (ErrorCode.TELEMETRY_TOO_LARGE, State.PUSH_NEEDED, INTERVAL),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, State.SUBSCRIPTION_NEEDED, 0),
        (ErrorCode.INVALID_REQUEST, State.TERMINATED, inf),
        (ErrorCode.INVALID_RECORD, State.TERMINATED, inf),
        (ErrorCode.UNSUPPORTED_VERSION, State.TERMINATED, inf),
        (ErrorCode.UNKNOWN_SERVER_ERROR, State.TERMINATED, inf),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, State.SUBSCRIPTION_NEEDED, INTERVAL),
        (32000, State.TERMINATED, inf),
    ],
)
def test_a_push_is_refused(code: int, state: TelemetryState, pause: float) -> None:
    states = pushing()
    states.push_ended(int(code), 100, ZSTD, NOW)
    assert at(states) == (state, NOW + pause)
    if state is State.TERMINATED:
        assert isinstance(states.refusal, KafkaError)
        assert states.refusal.code == int(code)


def test_the_numbers_of_the_reactions() -> None:
    reactions = {ErrorCode(code): reaction for code, reaction in PUSH_REACTIONS.items()}
    assert reactions == {
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Reaction.OTHER_CODEC,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED: Reaction.WAIT,
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID: Reaction.ASK_AT_ONCE,
        ErrorCode.TELEMETRY_TOO_LARGE: Reaction.SMALLER,
    }


def test_a_refused_codec_is_not_used_again_and_nothing_is_the_last_resort() -> None:
    states = pushing()
    code = int(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
    for codec in (ZSTD, 3):
        states.push_ended(code, 100, codec, NOW)
        assert codec in states.refused_codecs
        states.asked()
        states.subscribed(response(), NOW)
        states.pushed()
    states.push_ended(code, 100, 0, NOW)
    assert states.state is State.TERMINATED


def test_a_payload_that_was_too_large_makes_the_next_one_smaller() -> None:
    states = pushing()
    code = int(ErrorCode.TELEMETRY_TOO_LARGE)
    for size in (900, 950, 800):
        states.push_ended(code, size, ZSTD, NOW)
        assert states.max_bytes < size
        states.pushed()


def test_a_push_without_content_waits_for_the_next_one() -> None:
    states = subscribed()
    states.skipped(NOW + 50)
    assert at(states) == (State.PUSH_NEEDED, NOW + 50 + INTERVAL)


# --- the end ----------------------------------------------------------------------------------


def test_the_last_push() -> None:
    states = subscribed()
    states.close(NOW)
    assert at(states) == (State.TERMINATING_PUSH_NEEDED, NOW)
    states.close(NOW)
    states.pushed()
    assert at(states) == (State.TERMINATING_PUSH_IN_PROGRESS, inf)
    states.close(NOW)
    states.push_ended(int(ErrorCode.UNKNOWN_SUBSCRIPTION_ID), 100, ZSTD, NOW)
    assert at(states) == (State.TERMINATED, inf)
    assert states.refusal is None


@pytest.mark.parametrize("make", [asking, lambda: TelemetryStates(NoJitter())])
def test_without_a_subscription_there_is_no_last_push(make: Callable[[], TelemetryStates]) -> None:
    states = make()
    states.close(NOW)
    assert at(states) == (State.TERMINATED, inf)
    states.subscribed(response(), NOW)
    states.lost(NOW)
    assert states.state is State.TERMINATED


@pytest.mark.parametrize(
    "event",
    [
        lambda states: states.push_ended(0, 100, ZSTD, NOW),
        lambda states: states.push_ended(89, 100, ZSTD, NOW),
        lambda states: states.lost(NOW),
    ],
    ids=["taken", "throttled", "lost"],
)
def test_the_last_push_follows_the_one_in_progress(
    event: Callable[[TelemetryStates], None],
) -> None:
    states = pushing()
    states.close(NOW)
    assert at(states) == (State.PUSH_IN_PROGRESS, inf)
    event(states)
    assert at(states) == (State.TERMINATING_PUSH_NEEDED, NOW)
    states.pushed()
    states.lost(NOW)
    assert at(states) == (State.TERMINATED, inf)


def test_a_last_push_that_is_not_possible() -> None:
    states = subscribed()
    states.close(NOW)
    states.skipped(NOW)
    assert states.state is State.TERMINATED


def test_the_table_has_every_state_and_other_ways_are_errors() -> None:
    assert set(TRANSITIONS) == set(State)
    for source, targets in TRANSITIONS.items():
        assert source is State.TERMINATED or State.TERMINATED in targets
    with pytest.raises(IllegalStateError, match="telemetry does not go from"):
        subscribed().asked()


CODES = some.sampled_from([0, *(int(code) for code in ErrorCode), 32000])


@given(some.lists(some.tuples(some.integers(0, 8), CODES), max_size=40), some.randoms())
def test_no_order_of_events_is_an_error(events: list[tuple[int, int]], random: Random) -> None:
    """What the requester may do in a state, and what brokers may answer then."""
    states, now = TelemetryStates(random), NOW
    for number, code in events:
        state = states.state
        now += 1
        match number:
            case 0:
                states.connected(now)
            case 1:
                states.hurry(now)
            case 2 if state is State.SUBSCRIPTION_NEEDED:
                states.asked()
            case 3:
                states.subscribed(response(code, prefixes=("",) if code % 2 else ()), now)
            case 4 if state in (State.PUSH_NEEDED, State.TERMINATING_PUSH_NEEDED):
                states.pushed()
            case 5:
                states.push_ended(code, 10, code % 5, now)
            case 6:
                states.lost(now)
            case 7:
                states.skipped(now)
            case 8 if code % 3 == 0:
                states.close(now)
        in_progress = states.state.name.endswith(("IN_PROGRESS", "TERMINATED"))
        assert not in_progress or states.due == inf
    states.close(now)
    states.end()
    assert at(states) == (State.TERMINATED, inf)
