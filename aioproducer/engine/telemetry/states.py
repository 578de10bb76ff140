"""The states of telemetry: what is due, and when. No I/O; times are seconds of a monotonic clock.

Source: Kafka's ``ClientTelemetryState`` and ``ClientTelemetryReporter``. The reactions to error
codes are those of KIP-714.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final

from aioproducer.engine.telemetry.subscription import (
    DEFAULT_INTERVAL,
    Subscription,
    SubscriptionResponse,
)
from aioproducer.errors import IllegalStateError, KafkaError, ProducerError, error_about
from aioproducer.foundation import tuning

if TYPE_CHECKING:
    from uuid import UUID

__all__ = [
    "PUSH_REACTIONS",
    "TERMINATION_SECONDS",
    "TRANSITIONS",
    "Reaction",
    "TelemetryState",
    "TelemetryStates",
]

TERMINATION_SECONDS: Final = 1.0
"""The longest that the last push holds up ``close()``, as in librdkafka."""

_JITTER: Final = (0.5, 1.5)
"""The bounds of the factor by which the first push of a subscription is early or late."""


class TelemetryState(Enum):
    """The states of a client's telemetry."""

    SUBSCRIPTION_NEEDED = "subscription needed"
    SUBSCRIPTION_IN_PROGRESS = "subscription in progress"
    PUSH_NEEDED = "push needed"
    """The push is sent when its time has come."""
    PUSH_IN_PROGRESS = "push in progress"
    TERMINATING_PUSH_NEEDED = "terminating push needed"
    TERMINATING_PUSH_IN_PROGRESS = "terminating push in progress"
    TERMINATED = "terminated"


State = TelemetryState

TRANSITIONS: Final[Mapping[TelemetryState, Mapping[TelemetryState, str]]] = {
    State.SUBSCRIPTION_NEEDED: {
        State.SUBSCRIPTION_IN_PROGRESS: "asked for the subscription",
        State.TERMINATED: "close()",
    },
    State.SUBSCRIPTION_IN_PROGRESS: {
        State.PUSH_NEEDED: "metrics are requested",
        State.SUBSCRIPTION_NEEDED: "no metrics are requested, or the request failed",
        State.TERMINATED: "close(), or refused",
    },
    State.PUSH_NEEDED: {
        State.PUSH_IN_PROGRESS: "pushed",
        State.TERMINATING_PUSH_NEEDED: "close()",
        State.TERMINATED: "no connection is left at close()",
    },
    State.PUSH_IN_PROGRESS: {
        State.PUSH_NEEDED: "taken, or lost",
        State.SUBSCRIPTION_NEEDED: "the subscription has changed",
        State.TERMINATING_PUSH_NEEDED: "taken, or lost, after close()",
        State.TERMINATED: "refused",
    },
    State.TERMINATING_PUSH_NEEDED: {
        State.TERMINATING_PUSH_IN_PROGRESS: "pushed",
        State.TERMINATED: "no connection, or no time",
    },
    State.TERMINATING_PUSH_IN_PROGRESS: {
        State.TERMINATED: "any response, or no time",
    },
    State.TERMINATED: {},
}
"""The events that lead from a state to another one; there are no other ways."""


class Reaction(Enum):
    """The reaction to an error code."""

    ASK_AT_ONCE = "the subscription is asked for anew"
    ASK_LATER = "the subscription is asked for anew after the interval"
    OTHER_CODEC = "as ASK_AT_ONCE, and the codec is not used again"
    SMALLER = "the next push is smaller"
    WAIT = "the request is repeated after the interval"
    END = "telemetry ends"


_UNSUPPORTED_COMPRESSION_TYPE: Final = 76
_THROTTLING_QUOTA_EXCEEDED: Final = 89
_UNKNOWN_SUBSCRIPTION_ID: Final = 117
_TELEMETRY_TOO_LARGE: Final = 118

PUSH_REACTIONS: Final[Mapping[int, Reaction]] = {
    _UNSUPPORTED_COMPRESSION_TYPE: Reaction.OTHER_CODEC,
    _THROTTLING_QUOTA_EXCEEDED: Reaction.WAIT,
    _UNKNOWN_SUBSCRIPTION_ID: Reaction.ASK_AT_ONCE,
    _TELEMETRY_TOO_LARGE: Reaction.SMALLER,
}
"""The reactions to a refused push. Of other codes, those that Kafka calls retriable mean
``ASK_LATER``, and the rest ``END``: INVALID_REQUEST, INVALID_RECORD and what is not meant for
telemetry."""


class TelemetryStates:
    """The states of one client's telemetry."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._closing = False
        self._losses = 0
        """The lost requests for the subscription, one after another."""
        self._pause_is_over = False
        self.state = State.SUBSCRIPTION_NEEDED
        self.due = inf
        """The time of the next request; infinite while none is to be sent."""
        self.client_instance_id: UUID | None = None
        self.subscription: Subscription | None = None
        """The last subscription with metrics."""
        self.max_bytes = 0
        """The largest payload that the broker takes."""
        self.refused_codecs: frozenset[int] = frozenset()
        self.refusal: ProducerError | None = None
        """The error that has ended telemetry, if one has."""

    def _move(self, state: TelemetryState, due: float = inf) -> None:
        if state not in TRANSITIONS[self.state]:
            raise IllegalStateError(f"telemetry does not go from {self.state} to {state}")
        self.state = state
        self.due = due

    # --- the subscription ------------------------------------------------------------------

    def connected(self, now: float) -> None:
        """A broker is connected that supports telemetry: the first request follows soon."""
        if self.state is State.SUBSCRIPTION_NEEDED and self.due == inf:
            self.due = now + tuning.TELEMETRY_FIRST_PAUSE

    def hurry(self, now: float) -> None:
        """A caller waits for the id: the first request does not wait."""
        if self.state is State.SUBSCRIPTION_NEEDED and not self._pause_is_over:
            self.due = now

    def asked(self) -> None:
        """The request for the subscription was sent."""
        self._pause_is_over = True
        self._move(State.SUBSCRIPTION_IN_PROGRESS)

    def subscribed(self, response: SubscriptionResponse, now: float) -> None:
        """Take the response to the request for the subscription."""
        if self.state is not State.SUBSCRIPTION_IN_PROGRESS:
            return
        code, instance_id, subscription = response
        self._losses = 0
        if code:
            self._subscription_refused(error_about("no telemetry subscription", code), now)
            return
        if self.client_instance_id is None:
            self.client_instance_id = instance_id
        interval = subscription.interval
        if self.client_instance_id is None or not subscription.selection:
            self._move(State.SUBSCRIPTION_NEEDED, now + interval)
            return
        self.subscription = subscription
        self.max_bytes = subscription.max_bytes
        self._move(State.PUSH_NEEDED, now + interval * self._random.uniform(*_JITTER))

    def _subscription_refused(self, error: KafkaError, now: float) -> None:
        if error.retriable:
            self._move(State.SUBSCRIPTION_NEEDED, now + self._interval)
        else:
            self.end(error)

    @property
    def _interval(self) -> float:
        return DEFAULT_INTERVAL if self.subscription is None else self.subscription.interval

    # --- pushes ----------------------------------------------------------------------------

    def pushed(self) -> None:
        """A push was sent."""
        terminating = self.state is State.TERMINATING_PUSH_NEEDED
        self._move(State.TERMINATING_PUSH_IN_PROGRESS if terminating else State.PUSH_IN_PROGRESS)

    def push_ended(self, code: int, size: int, codec: int, now: float) -> None:
        """Take the response to a push of ``size`` bytes; code 0: the broker has taken it."""
        if self.state is State.TERMINATING_PUSH_IN_PROGRESS:
            self._move(State.TERMINATED)
        if self.state is not State.PUSH_IN_PROGRESS:
            return
        if self._closing and code in (0, _THROTTLING_QUOTA_EXCEEDED):
            self._move(State.TERMINATING_PUSH_NEEDED, now)
            return
        if not code:
            self._move(State.PUSH_NEEDED, now + self._interval)
            return
        error = error_about("the broker refused the metrics", code)
        later = Reaction.ASK_LATER if error.retriable else Reaction.END
        self._react(PUSH_REACTIONS.get(code, later), error, size, codec, now)

    def _react(
        self, reaction: Reaction, error: KafkaError, size: int, codec: int, now: float
    ) -> None:
        match reaction:
            case Reaction.ASK_AT_ONCE:
                self._move(State.SUBSCRIPTION_NEEDED, now)
            case Reaction.ASK_LATER:
                self._move(State.SUBSCRIPTION_NEEDED, now + self._interval)
            case Reaction.OTHER_CODEC if codec not in self.refused_codecs and codec:
                self.refused_codecs |= {codec}
                self._move(State.SUBSCRIPTION_NEEDED, now)
            case Reaction.SMALLER:
                self.max_bytes = min(self.max_bytes, size) - 1
                self._move(State.PUSH_NEEDED, now + self._interval)
            case Reaction.WAIT:
                self._move(State.PUSH_NEEDED, now + self._interval)
            case _:
                self.end(error)

    def skipped(self, now: float) -> None:
        """The metrics were not pushed: not even the fewest fit into a request."""
        if self.state is State.PUSH_NEEDED:
            self.due = now + self._interval
        elif self.state is State.TERMINATING_PUSH_NEEDED:
            self._move(State.TERMINATED)

    def lost(self, now: float) -> None:
        """The connection has ended before the response."""
        match self.state:
            case State.SUBSCRIPTION_IN_PROGRESS:
                pause = min(tuning.TELEMETRY_FIRST_RETRY * 2**self._losses, DEFAULT_INTERVAL)
                self._losses = min(self._losses + 1, 16)
                self._move(State.SUBSCRIPTION_NEEDED, now + pause * self._random.uniform(*_JITTER))
            case State.PUSH_IN_PROGRESS if self._closing:
                self._move(State.TERMINATING_PUSH_NEEDED, now)
            case State.PUSH_IN_PROGRESS:
                self._move(State.PUSH_NEEDED, now + self._interval)
            case State.TERMINATING_PUSH_IN_PROGRESS:
                self._move(State.TERMINATED)

    # --- the end ---------------------------------------------------------------------------

    def close(self, now: float) -> None:
        """The client has finished: what is left is the last push, if any was due later."""
        self._closing = True
        match self.state:
            case State.PUSH_NEEDED:
                self._move(State.TERMINATING_PUSH_NEEDED, now)
            case State.SUBSCRIPTION_NEEDED | State.SUBSCRIPTION_IN_PROGRESS:
                self._move(State.TERMINATED)

    def end(self, refusal: ProducerError | None = None) -> None:
        """There will be no more requests; ``refusal``: the reason, if it is an error."""
        if self.state is not State.TERMINATED:
            self.refusal = refusal
            self._move(State.TERMINATED)
