"""The state of a consumer, for health checks and metrics. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from aioproducer.consumer.assignment import Assignment
from aioproducer.consumer.group_protocol import GroupProtocol
from aioproducer.consumer.metrics import (
    CLIENT_METRICS,
    FETCH_METRICS,
    NODE_METRICS,
    ConsumerMetricsSnapshot,
    ConsumerStats,
    coordinator_metrics,
    fetch_metrics,
    lag_of,
    partition_metrics,
)
from aioproducer.consumer.progress import Progress
from aioproducer.consumer.subscription import GroupTopics
from aioproducer.consumer.work_watch import WorkWatch
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.engine.metrics.names import values_by_node, values_of_whole
from aioproducer.errors import ProducerError
from aioproducer.model import TopicPartition
from aioproducer.reader.record_source import RecordSource

__all__ = ["ConsumerHealth"]

UNUSABLE: Final = {
    "not started": "the consumer was not started",
    "closed": "the consumer is closed; make a new one",
    "forked": "the consumer was made in another process (before a fork); make one in each process",
}
"""The reason that a consumer in this state reads nothing."""


@dataclass(frozen=True, slots=True)
class ConsumerHealth:
    """The state of a consumer at one point in time. Ages are in seconds before that point."""

    client_id: str
    group_id: str
    state: str
    """``not started``; ``joining`` the group; ``joined``; ``rebalancing``: the member waits for
    others, or gives up partitions; ``silent``: the coordinator has not answered within the session
    timeout; ``failed``: every read raises an error; ``closed``; ``forked``: it belongs to another
    process."""
    problems: tuple[str, ...] = ()
    """The problems, one line each."""
    member_id: str = ""
    generation: int = -1
    """The group's generation; with KIP-848 the member's epoch."""
    partitions: int = 0
    """The partitions that the group has assigned to this member."""
    partitions_without_position: int = 0
    """The partitions whose offsets are being looked up."""
    paused_partitions: int = 0
    rebalances: int = 0
    """The number of assignments so far."""
    heartbeat_age: float | None = None
    """Seconds since the coordinator's last response; None: the member is not in the group."""
    oldest_record: tuple[TopicPartition, int] | None = None
    """The partition and offset of the record that has been in processing the longest."""
    oldest_record_age: float | None = None
    lag: int | None = None
    """The number of records after the positions, from the last response of each leader; None:
    unknown. With ``read_committed``, records of open transactions are not counted."""
    group_protocol: str | None = None
    """``classic`` or ``consumer``: the protocol of the member; None: it is not chosen yet."""

    @property
    def is_live(self) -> bool:
        """False if only a new consumer would help: it is closed, failed, or in a forked process.
        ``reason`` says why."""
        return self.state not in ("closed", "failed", "forked")

    @property
    def is_ready(self) -> bool:
        """True if the member is in the group, and the group's coordinator answers."""
        return self.state in ("joined", "rebalancing")

    @property
    def is_degraded(self) -> bool:
        """True if there are problems but records are still read."""
        return self.is_ready and bool(self.problems)

    @property
    def reason(self) -> str:
        """The problems in one line; empty if there are none."""
        return "; ".join(self.problems)

    def as_dict(self) -> dict[str, Any]:
        """All fields and properties, ready for JSON."""
        properties = ("is_live", "is_ready", "is_degraded", "reason")
        oldest = self.oldest_record
        return {
            **asdict(self),
            "problems": list(self.problems),
            "oldest_record": None if oldest is None else [*oldest[0], oldest[1]],
            **{name: getattr(self, name) for name in properties},
        }


class Observation:
    """Reads the known facts of the parts. ``longest_work``: seconds, ``max_poll_interval_ms``."""

    def __init__(
        self,
        group_id: str,
        longest_work: float,
        client: ClusterClient,
        protocol: GroupProtocol,
        assignment: Assignment,
        progress: Progress,
        watch: WorkWatch,
        source: RecordSource,
        stats: ConsumerStats,
        topics: GroupTopics,
    ) -> None:
        self._group_id = group_id
        self._longest_work = longest_work
        self._clock = client.clock
        self._counts = client.metrics
        self._protocol = protocol
        self._assignment = assignment
        self._progress = progress
        self._source = source
        self._watch = watch
        self._stats = stats
        self._topics = topics

    def health(
        self, client_id: str, failure: ProducerError | None, why_no_answer: Callable[[], str]
    ) -> ConsumerHealth:
        """The state now. ``failure``: the error that each read raises."""
        now = self._clock()
        session, identity = self._protocol.session, self._protocol.member.identity
        owned, states = self._assignment.owned, self._progress.partitions
        last, oldest = session.last_heartbeat, self._progress.oldest(now)
        committed_only = self._source.fetcher.committed_only
        lags = [
            lag_of(each.state, self._progress.position(at), committed_only=committed_only)
            for at, each in states.items()
        ]
        return ConsumerHealth(
            client_id,
            self._group_id,
            "failed" if failure is not None else self._state,
            self._problems(now, failure, why_no_answer),
            identity.member_id,
            identity.generation,
            len(owned),
            len(owned) - len(states),
            len(self._assignment.paused),
            self._stats.read(now).ever.rebalances.count,
            None if last is None else now - last,
            None if oldest is None else oldest[:2],
            None if oldest is None else now - oldest[2],
            None if None in lags else sum(each or 0 for each in lags),
            self._protocol.name,
        )

    @property
    def _state(self) -> str:
        session = self._protocol.session
        if session.last_heartbeat is None:
            return "joining"
        if session.may_be_over:
            return "silent"
        return "joined" if self._protocol.member.rebalance_began is None else "rebalancing"

    def _problems(
        self, now: float, failure: ProducerError | None, why_no_answer: Callable[[], str]
    ) -> tuple[str, ...]:
        found = [] if failure is None else [f"every read raises {failure}"]
        if self._state == "silent":
            found.append("the coordinator has not answered for longer than session_timeout_ms")
        elif self._state == "joining":
            until = " until it is asked for records" if self._protocol.member.gave_up else ""
            found.append(f"the member is not in group {self._group_id!r}{until}")
        elif (began := self._protocol.member.rebalance_began) is not None:
            found.append(f"a rebalance has been in progress for {now - began:.0f} s")
        found += self._topics.missing
        begun = self._progress.partitions
        if (call := self._assignment.oldest_call) is not None:
            found.append(f"the callback {call[0]!r} has been running for {now - call[1]:.0f} s")
        elif waiting := [where for where in self._assignment.owned if where not in begun]:
            found.append(f"the offset of {min(waiting)} is not known yet")
        oldest = self._progress.oldest(now)
        if oldest is not None and (age := now - oldest[2]) > self._longest_work / 2:
            where, offset, _ = oldest
            found.append(
                f"the record of {where} at offset {offset} has been in processing for {age:.0f} s"
            )
        idle = now - self._watch.last_read(now)
        if oldest is None and idle > self._longest_work / 2:
            found.append(f"nothing has read from this consumer for {idle:.0f} s")
        states = {where: each.state for where, each in begun.items()}
        failing = [where for where, state in states.items() if state.failures and not state.paused]
        if failing:
            found.append(f"{min(failing)} can't be fetched: {why_no_answer()}")
        return tuple(found)

    def metrics(self) -> ConsumerMetricsSnapshot:
        """The metrics now."""
        now, fetcher = self._clock(), self._source.fetcher
        states = {where: each.state for where, each in self._progress.partitions.items()}
        positions = {where: self._progress.position(where) for where in states}
        partitions = partition_metrics(states, positions, committed_only=fetcher.committed_only)
        fetcher.count_wait()
        reading = self._counts.read(now)
        return {
            "consumer-metrics": values_of_whole(CLIENT_METRICS, reading),
            "consumer-node-metrics": values_by_node(NODE_METRICS, reading),
            "consumer-coordinator-metrics": coordinator_metrics(
                self._stats,
                len(self._assignment.owned),
                self._protocol.session.last_heartbeat,
                self._protocol.name,
                now,
            ),
            "consumer-fetch-manager-metrics": values_of_whole(FETCH_METRICS, reading)
            | fetch_metrics(
                self._source.handed_out, fetcher.fetched_bytes, fetcher.fetches, partitions
            ),
            "consumer-fetch-manager-partition-metrics": partitions,
        }
