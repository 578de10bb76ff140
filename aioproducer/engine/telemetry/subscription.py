"""The metrics that a broker asks for (KIP-714): their names, the two requests, the states. No I/O.

The states say what is due, and when; times are seconds of a monotonic clock. The reactions to error
codes are those of KIP-714. Sources: Kafka's ``ClientTelemetryState``, ``ClientTelemetryReporter``,
``TelemetryMetricNamingConvention`` and ``ClientTelemetryUtils``.
"""

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from functools import cache
from math import inf
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from aioproducer.engine.network.request import SchemaRequest
from aioproducer.engine.protocol import Api, Schema
from aioproducer.errors import IllegalStateError, KafkaError, ProducerError
from aioproducer.errors.broker import error_about
from aioproducer.foundation import tuning
from aioproducer.foundation.backoff import ExponentialBackoff

__all__ = [
    "MetricGroup",
    "MetricGroups",
    "Selection",
    "is_sum",
    "producer_groups",
    "selected",
    "telemetry_name",
    "DEFAULT_INTERVAL",
    "Subscription",
    "SubscriptionResponse",
    "GetTelemetrySubscriptionsRequest",
    "PushTelemetryRequest",
    "PUSH_REACTIONS",
    "TERMINATION_SECONDS",
    "TRANSITIONS",
    "Reaction",
    "TelemetryState",
    "TelemetryStates",
]


_DOMAIN: Final = "org.apache.kafka"
_ALL: Final = "*"
"""Kafka's brokers ask for all metrics by this; the KIP has the empty string for it."""


class MetricGroup(NamedTuple):
    """A group of a client's metrics, as telemetry names them."""

    domain: str
    """The part of the names between ``org.apache.kafka`` and the metric: ``producer-node``."""
    names: tuple[str, ...]
    attributes: Callable[[str], Mapping[str, str]] | None = None
    """The attributes that tell a member apart, by its key in the snapshot, such as a topic.
    None: the group has no members, and its values are directly in the snapshot."""

    def members(self, values: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
        """The values of a snapshot by the key of a member."""
        return {"": values} if self.attributes is None else values


MetricGroups: TypeAlias = Mapping[str, MetricGroup]
"""All groups by their names in the snapshot. If there is no room, the last ones are left out."""

Selection: TypeAlias = frozenset[tuple[str, str]]
"""Chosen metrics: the group and the name of each, as in the snapshot."""


def telemetry_name(group: MetricGroup, name: str) -> str:
    """The name of a metric in telemetry: ``org.apache.kafka.producer.record.queue.time.avg``."""
    return f"{_DOMAIN}.{group.domain}.{name}".replace("-", ".")


def is_sum(name: str) -> bool:
    """True for a count since the start, which only grows; any other metric is a gauge."""
    return name.endswith("-total")


@cache
def producer_groups() -> MetricGroups:
    """The groups of a producer."""
    from aioproducer.engine.metrics.names import GROUPS

    attributes: Mapping[str, Callable[[str], Mapping[str, str]] | None] = {
        "producer-metrics": None,
        "producer-node-metrics": lambda node: {"node_id": node},
        "producer-topic-metrics": lambda topic: {"topic": topic},
    }
    return {
        group: MetricGroup(
            group.removesuffix("-metrics"), tuple(metric.name for metric in GROUPS[group]), of
        )
        for group, of in attributes.items()
    }


def selected(prefixes: Collection[str], groups: MetricGroups) -> Selection:
    """The metrics of ``groups`` whose telemetry names begin with any of ``prefixes``.

    The result is bounded by the number of metrics, and so is the time, however many prefixes
    there are.
    """
    names = {
        (key, name): telemetry_name(group, name)
        for key, group in groups.items()
        for name in group.names
    }
    wanted = set(prefixes)
    longest, everything = max(map(len, names.values())), _ALL in wanted
    lengths = {len(each) for each in wanted if len(each) <= longest}
    return frozenset(
        metric
        for metric, name in names.items()
        if everything or any(name[:length] in wanted for length in lengths)
    )


DEFAULT_INTERVAL: Final = 300.0
"""Seconds between requests if the broker names no time; Kafka's default."""


class Subscription(NamedTuple):
    """The metrics that a broker asks for, and the way that it wants them."""

    subscription_id: int
    interval: float
    """Seconds from push to push."""
    codecs: tuple[int, ...]
    """Kafka's numbers of the codecs that the broker accepts, the preferred one first."""
    max_bytes: int
    delta: bool
    """True: counts as their growth since the last push."""
    selection: Selection


class SubscriptionResponse(NamedTuple):
    """The response to the request for the subscription."""

    error_code: int
    client_instance_id: UUID | None
    """The id that the broker has assigned; None if it names none."""
    subscription: Subscription


_SHORTEST_INTERVAL: Final = 0.1
"""Seconds; Kafka's brokers accept no less in their configuration."""
_DEFAULT_MAX_BYTES: Final = 1024 * 1024
"""Kafka's default of ``telemetry.max.bytes``."""
_MOST_PREFIXES: Final = 10_000
_MOST_CODECS: Final = 16
"""More is damage; the rest is not looked at."""


class GetTelemetrySubscriptionsRequest(SchemaRequest):
    """Ask for the subscription of this client."""

    api = Api.GET_TELEMETRY_SUBSCRIPTIONS

    def __init__(
        self,
        client_instance_id: UUID | None,
        groups: Callable[[], MetricGroups] = producer_groups,
    ) -> None:
        self.client_instance_id = client_instance_id
        """None: the broker assigns one."""
        self.groups = groups
        """The metrics that the client has."""

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.GetTelemetrySubscriptionsRequest(client_instance_id=self.client_instance_id)

    def read(self, response: Any) -> SubscriptionResponse:
        """The content of the response. Impossible values have no effect but on telemetry."""
        interval = response.push_interval_ms / 1000
        max_bytes = response.telemetry_max_bytes
        return SubscriptionResponse(
            response.error_code,
            response.client_instance_id,
            Subscription(
                response.subscription_id,
                max(interval, _SHORTEST_INTERVAL) if interval > 0 else DEFAULT_INTERVAL,
                response.accepted_compression_types[:_MOST_CODECS],
                max_bytes if max_bytes > 0 else _DEFAULT_MAX_BYTES,
                response.delta_temporality,
                selected(response.requested_metrics[:_MOST_PREFIXES], self.groups()),
            ),
        )


class PushTelemetryRequest(SchemaRequest):
    """Push metrics. The response is an error code.

    ``terminating``: this is the last push of the client. ``metrics``: OTLP's ``MetricsData``,
    compressed.
    """

    api = Api.PUSH_TELEMETRY

    def __init__(
        self,
        *,
        client_instance_id: UUID,
        subscription_id: int,
        terminating: bool,
        compression_type: int,
        metrics: bytes,
    ) -> None:
        self._values = {
            "client_instance_id": client_instance_id,
            "subscription_id": subscription_id,
            "terminating": terminating,
            "compression_type": compression_type,
            "metrics": metrics,
        }

    def message(self, schema: Schema, version: int) -> Any:
        """The request as a message."""
        return schema.PushTelemetryRequest(**self._values)

    def read(self, response: Any) -> int:
        """The error code of the response; 0: the broker has taken the metrics."""
        return int(response.error_code)


TERMINATION_SECONDS: Final = 1.0
"""The longest that the last push holds up ``close()``, as in librdkafka."""

_JITTER: Final = (0.5, 1.5)
"""The bounds of the factor by which the first push of a subscription is early or late (KIP-714)."""


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

    ASK_AT_ONCE = "the subscription is asked for again"
    ASK_LATER = "the subscription is asked for again after the interval"
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
        self._backoff = ExponentialBackoff(tuning.TELEMETRY_FIRST_RETRY, DEFAULT_INTERVAL, random)
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
                self._losses += 1
                pause = self._backoff.delay(self._losses)
                self._move(State.SUBSCRIPTION_NEEDED, now + pause)
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
