"""MockCluster: its start, its end, and its commands to the process of the brokers.

The commands stand in a class for each subject: versions of APIs, topics, brokers, scripted errors,
received requests, and the subscription to clients' metrics (KIP-714). :func:`run` runs a cluster in
the foreground, for the two command lines that start one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, Literal, NamedTuple, Self

from aioproducer.errors import IllegalStateError
from aioproducer.testing.mock_cluster.process import (
    MockClusterArgumentError,
    MockClusterError,
    MockClusterProcess,
)
from aioproducer.testing.ports import ReservedPort

__all__ = [
    "ALL_BROKERS",
    "DISCONNECT",
    "INT32_MAX",
    "Commands",
    "check_name",
    "check_range",
    "error_codes",
    "ApiVersions",
    "NO_LEADER",
    "Topics",
    "Brokers",
    "RequestErrors",
    "RequestTracking",
    "TrackedRequest",
    "Telemetry",
    "MockCluster",
    "DESCRIPTION",
    "PORT",
    "run",
]


ALL_BROKERS: Final = -1
"""The broker id that stands for every broker of the cluster."""
DISCONNECT: Final = -195
"""An error: the broker closes the connection without a response (librdkafka's _TRANSPORT)."""
INT32_MAX: Final = 2**31 - 1


class Commands:
    """The base of each group of commands: the running process, and the cluster's size."""

    def __init__(self, brokers: int) -> None:
        check_range("brokers", brokers, 1, 100)
        self._brokers = brokers
        self._process: MockClusterProcess | None = None

    @property
    def broker_ids(self) -> range:
        """1 to the number of brokers."""
        return range(1, self._brokers + 1)

    @property
    def _running(self) -> MockClusterProcess:
        if self._process is None:
            raise IllegalStateError("the mock cluster is not running: enter its context first")
        return self._process

    def _call(self, function: str, *arguments: int | str | list[int] | list[str]) -> None:
        self._running.call((function, *arguments))

    def _check_broker(self, broker_id: int, *, or_all: bool = False) -> None:
        if broker_id not in self.broker_ids and not (or_all and broker_id == ALL_BROKERS):
            raise MockClusterArgumentError(
                f"there is no broker {broker_id}: the ids are 1 to {self._brokers}"
            )

    def _check_api(self, api_key: int) -> tuple[int, int]:
        implemented = self._running.implemented_versions
        if api_key not in implemented:
            raise MockClusterArgumentError(
                f"the mock cluster does not implement API {api_key}, "
                f"only {', '.join(map(str, sorted(implemented)))}"
            )
        return implemented[api_key]

    def _check_partition(self, topic: str, partition: int) -> None:
        check_name("topic", topic)
        check_range("partition", partition, 0, INT32_MAX)
        if not self._running.has_partition(topic, partition):
            raise MockClusterArgumentError(f"there is no partition {partition} of topic {topic!r}")


def check_range(what: str, number: int, low: int, high: int) -> int:
    """`number`. Raises `MockClusterArgumentError` if it is not `low` to `high`."""
    if not low <= number <= high:
        raise MockClusterArgumentError(f"{what} must be {low} to {high}, not {number}")
    return number


def check_name(what: str, name: str, longest: int = 249) -> None:
    """Raise `MockClusterArgumentError` for a name that is empty, too long or has a zero byte."""
    if not 1 <= len(name.encode()) <= longest or "\0" in name:
        raise MockClusterArgumentError(f"{what} must be 1 to {longest} bytes, not {name!r}")


def error_codes(errors: Iterable[int]) -> list[int]:
    """`errors` as a list: Kafka's error codes, or `DISCONNECT`."""
    return [e if e == DISCONNECT else check_range("error", e, -1, 2**15 - 1) for e in errors]


class ApiVersions(Commands):
    """The versions now, and the command that narrows them."""

    def __init__(self, brokers: int) -> None:
        super().__init__(brokers)
        self._api_versions: dict[int, tuple[int, int]] = {}

    @property
    def api_versions(self) -> dict[int, tuple[int, int]]:
        """API key → first and last version that the brokers speak now; ``(-1, -1)``: none."""
        return dict(self._api_versions)

    def set_api_version(self, api_key: int, min_version: int, max_version: int) -> None:
        """Narrow the versions that the brokers speak; -1 and -1 take the API away.

        Connections that know the old versions are closed when they use them.
        """
        first, last = self._check_api(api_key)
        narrower = first <= min_version <= max_version <= last
        if not narrower and (min_version, max_version) != (-1, -1):
            raise MockClusterArgumentError(
                f"the mock cluster implements API {api_key} in the versions {first} to {last}, "
                f"not {min_version} to {max_version}"
            )
        self._call("set_apiversion", api_key, min_version, max_version)
        self._api_versions[api_key] = (min_version, max_version)


NO_LEADER: Final = -1
"""The leader of a partition that has none."""

_PRODUCE: Final = 0
_FETCH: Final = 1
# From these versions on librdkafka looks up the leader's address for its NOT_LEADER answer
# (KIP-951) without asking whether there is a leader, and its process ends by a segfault.
_FIRST_VERSION_WITH_LEADER_HINT: Final = {_PRODUCE: 10, _FETCH: 16}
# Keeps a line below the capacity of a pipe (64 KiB), a topic name being at most 249 bytes.
_TOPICS_PER_LINE: Final = 200


class Topics(ApiVersions):
    """Topics, and the leaders of their partitions."""

    def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 1) -> None:
        """Create one topic, like `create_topics`."""
        self.create_topics({name: partitions}, replication_factor)

    def create_topics(self, topics: Mapping[str, int], replication_factor: int = 1) -> None:
        """Create topics that do not exist yet, each with its number of partitions.

        Without replication the leader of partition p is broker ``p % brokers + 1``; with a larger
        `replication_factor` librdkafka chooses a replica at random. Creating thousands of topics
        takes a second.
        """
        check_range("replication_factor", replication_factor, 1, self._brokers)
        for name, partitions in topics.items():
            check_name("topic", name)
            check_range("partitions", partitions, 1, 10_000)
        calls = [("topic_create", name, topics[name], replication_factor) for name in topics]
        for start in range(0, len(calls), _TOPICS_PER_LINE):
            self._running.call(*calls[start : start + _TOPICS_PER_LINE])

    def set_topic_error(self, topic: str, error: int) -> None:
        """Let Metadata and AddPartitionsToTxn return the Kafka error code `error`; 0 ends this.

        UNKNOWN_TOPIC_OR_PARTITION (3) also hides the partitions. Produce is not affected.
        """
        self._check_partition(topic, 0)
        check_range("error", error, -1, 2**15 - 1)
        self._call("topic_set_error", topic, error)

    def set_partition_leader(self, topic: str, partition: int, broker_id: int) -> None:
        """Move the leadership to a broker, or `NO_LEADER`, and raise the leader epoch by one.

        The old leader answers Produce with NOT_LEADER_OR_FOLLOWER, from version 10 on with the new
        leader's address (KIP-951). For that reason librdkafka cannot serve `NO_LEADER` to Produce
        v10 and Fetch v16: call ``set_api_version`` for versions below these before a client
        connects, or use `push_leader_response`.
        """
        self._check_partition(topic, partition)
        if broker_id == NO_LEADER:
            self._check_leaderless_is_safe()
        else:
            self._check_broker(broker_id)
        self._call("partition_set_leader", topic, partition, broker_id)

    def push_leader_response(
        self, topic: str, partition: int, leader_id: int, leader_epoch: int
    ) -> None:
        """Let one Metadata response name this leader and epoch, correct or not.

        Several pushes take effect first to last. `leader_id` may be any number.
        """
        self._check_partition(topic, partition)
        check_range("leader_id", leader_id, -1, INT32_MAX)
        check_range("leader_epoch", leader_epoch, -1, INT32_MAX)
        self._call("partition_push_leader_response", topic, partition, leader_id, leader_epoch)

    def _check_leaderless_is_safe(self) -> None:
        for api_key, first_version in _FIRST_VERSION_WITH_LEADER_HINT.items():
            if self.api_versions[api_key][1] >= first_version:
                raise MockClusterArgumentError(
                    f"librdkafka crashes on a request of API {api_key} from version "
                    f"{first_version} on for a partition without leader; first call "
                    f"set_api_version({api_key}, 0, {first_version - 1})"
                )


class Brokers(Commands):
    """The brokers. The port of a broker that is down stays reserved."""

    def __init__(self, brokers: int) -> None:
        super().__init__(brokers)
        self._reserved: dict[int, ReservedPort] = {}

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of every broker, separated by commas, in the order of the broker ids."""
        return self._running.bootstrap_servers

    def broker_address(self, broker_id: int) -> tuple[str, int]:
        """Host and port where the broker listens, whatever `set_broker_address` advertises."""
        self._check_broker(broker_id)
        host, _, port = self.bootstrap_servers.split(",")[broker_id - 1].rpartition(":")
        return host, int(port)

    def set_broker_rtt(self, broker_id: int, rtt_ms: int) -> None:
        """Delay every response of the broker (or `ALL_BROKERS`) by this many milliseconds."""
        self._check_broker(broker_id, or_all=True)
        self._call("broker_set_rtt", broker_id, check_range("rtt_ms", rtt_ms, 0, INT32_MAX))

    def set_broker_down(self, broker_id: int) -> None:
        """Close the connections of the broker (or `ALL_BROKERS`) and refuse new ones.

        The partitions keep their leaders, but Metadata no longer lists the broker.
        """
        self._check_broker(broker_id, or_all=True)
        self._call("broker_set_down", broker_id)
        for each in self._meant(broker_id) - self._reserved.keys():
            with suppress(OSError):  # the port is reserved already
                self._reserved[each] = ReservedPort(*self.broker_address(each))

    def set_broker_up(self, broker_id: int) -> None:
        """Let the broker (or `ALL_BROKERS`) listen again, on its old port."""
        self._check_broker(broker_id, or_all=True)
        self._release(self._meant(broker_id))
        self._call("broker_set_up", broker_id)

    def set_broker_address(self, broker_id: int, host: str, port: int) -> None:
        """Let Metadata advertise this address, such as that of a proxy in front of the broker."""
        self._check_broker(broker_id)
        check_name("host", host, 127)
        self._call("broker_set_host_port", broker_id, host, check_range("port", port, 1, 65535))

    def set_coordinator(
        self, key_type: Literal["group", "transaction"], key: str, broker_id: int
    ) -> None:
        """Make a broker the coordinator of a consumer group or a transactional id."""
        if key_type not in ("group", "transaction"):
            raise MockClusterArgumentError(
                f"key_type is 'group' or 'transaction', not {key_type!r}"
            )
        check_name(key_type, key, 2**15 - 1)
        self._check_broker(broker_id)
        self._call("coordinator_set", key_type, key, broker_id)

    def set_group_initial_rebalance_delay(self, delay_ms: int) -> None:
        """Wait this many milliseconds for the members of a new consumer group (initially 3000)."""
        check_range("delay_ms", delay_ms, 0, INT32_MAX)
        self._call("group_initial_rebalance_delay_ms", delay_ms)

    def _meant(self, broker_id: int) -> set[int]:
        return set(self.broker_ids) if broker_id == ALL_BROKERS else {broker_id}

    def _release(self, broker_ids: set[int]) -> None:
        for each in broker_ids & self._reserved.keys():
            self._reserved.pop(each).release()


class RequestErrors(Commands):
    """Errors for the next requests to the cluster, to one broker, or for one partition."""

    def push_request_errors(self, api_key: int, *errors: int) -> None:
        """Let the next requests of this kind fail, one per error, at any broker.

        `errors` are Kafka's error codes, 0 for a response without error, or `DISCONNECT`. Metadata
        supports only `DISCONNECT` (see `set_topic_error`). A broker that ever had its own errors
        for this API, from `push_broker_request_errors`, never uses these.
        """
        self._check_api(api_key)
        codes = error_codes(errors)
        self._call("push_request_errors_array", api_key, len(codes), codes)

    def push_broker_request_errors(
        self, broker_id: int, api_key: int, *errors: tuple[int, int]
    ) -> None:
        """Like `push_request_errors`, for one broker. Every error has a delay in milliseconds.

        Error 0 with a delay is a slow response. `DISCONNECT` is not delayed.
        """
        self._check_broker(broker_id)
        self._check_api(api_key)
        codes = error_codes(error for error, _ in errors)
        delays = [check_range("rtt_ms", rtt_ms, 0, INT32_MAX) for _, rtt_ms in errors]
        pairs = [number for pair in zip(codes, delays, strict=True) for number in pair]
        self._call("broker_push_request_error_rtts", broker_id, api_key, len(codes), *pairs)

    def push_partition_request_errors(
        self, topic: str, partition: int, api_key: int, *errors: int
    ) -> None:
        """Like `push_request_errors`, for one partition. Other partitions are not affected."""
        self._check_partition(topic, partition)
        self._check_api(api_key)
        codes = error_codes(errors)
        self._call("partition_push_request_errors", topic, partition, api_key, len(codes), *codes)

    def clear_request_errors(self, api_key: int) -> None:
        """Remove the errors of `push_request_errors`, but keep those for brokers and partitions."""
        self._check_api(api_key)
        self._call("clear_request_errors", api_key)


class TrackedRequest(NamedTuple):
    """A request that a broker of the mock cluster received."""

    broker_id: int
    api_key: int
    timestamp: float
    """Seconds, on the clock of `time.monotonic()` (on macOS that of `time.time()`)."""


class RequestTracking(Commands):
    """The requests since tracking was started."""

    def start_request_tracking(self) -> None:
        """Record all requests for `requests()` from now on, and forget earlier ones."""
        self._call("start_request_tracking")

    def stop_request_tracking(self) -> None:
        """Stop recording, and forget the requests: call `requests()` first."""
        self._call("stop_request_tracking")

    def requests(self) -> list[TrackedRequest]:
        """Return the requests since tracking was started or cleared, in order of arrival."""
        (rows,) = self._running.call(("requests",))
        assert isinstance(rows, list)
        return [TrackedRequest(broker, api_key, micros / 1e6) for broker, api_key, micros in rows]

    def clear_requests(self) -> None:
        """Forget the requests so far, and continue tracking."""
        self._call("clear_requests")


class Telemetry(Commands):
    """The brokers' subscription for every client. They check the metrics' encoding.

    All clients get the same client instance id. The brokers take 10,000 bytes at most, accept all
    codecs, zstd first, and ask for deltas.
    """

    def set_requested_metrics(self, prefixes: Iterable[str]) -> None:
        """Request the metrics whose names begin with any of `prefixes`; initially none."""
        names = list(prefixes)
        self._call("telemetry_set_requested_metrics", names, len(names))

    def set_push_interval(self, milliseconds: int) -> None:
        """Ask for a push in this interval, instead of each 5 minutes."""
        check_range("milliseconds", milliseconds, 1, INT32_MAX)
        self._call("telemetry_set_push_interval", milliseconds)


class MockCluster(Topics, Brokers, RequestErrors, RequestTracking, Telemetry):
    """A mock cluster in its own process; a context manager, with or without ``async``.

    The brokers have the ids 1 to `brokers`. They keep at most 5 MiB per partition and drop older
    batches. A topic that a client requests is created with 4 partitions, unless the client forbids
    it. Unlike Kafka, these brokers also respond to requests with ``acks=0``, so connections with
    such requests are closed repeatedly.

    Every method blocks for a fraction of a millisecond, and entering the context for tens of
    milliseconds. You can call methods from any thread.

    Methods raise `MockClusterArgumentError` (a ValueError) for a broker, topic, partition or API
    that does not exist, `MockClusterError` when the process has crashed or does not answer within
    `command_timeout` seconds, and `IllegalStateError` outside of the context. Entering also raises
    `MissingExtraError` when there is no librdkafka, or it is older than 2.15.
    """

    def __init__(
        self,
        brokers: int = 3,
        topics: Mapping[str, int] | None = None,
        *,
        replication_factor: int = 1,
        command_timeout: float = 10.0,
        port: int | None = None,
    ) -> None:
        """`topics` are names with their numbers of partitions, see `create_topics`.

        `port` is the port of the first broker on localhost; the others use the following ports. By
        default every broker gets a free port, so that tests can run in parallel.
        """
        super().__init__(brokers)
        self._topics = dict(topics or {})
        self._replication_factor = replication_factor
        self._command_timeout = command_timeout
        if port is not None:
            check_range("port", port, 1, 65536 - brokers)
        self._port = port

    def __repr__(self) -> str:
        running = self._process
        where = "not running" if running is None else f"at {running.bootstrap_servers}"
        return f"<MockCluster {where}>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        crash = self._process and self._process.unreported_crash()
        self.close()
        if crash and error is not None:
            error.add_note(crash)
        elif crash:
            raise MockClusterError(crash)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.__exit__(kind, error, traceback)

    def start(self) -> None:
        """Start the process and create the topics. Entering the context does this."""
        if self._process is not None:
            raise IllegalStateError("the mock cluster is already started; close() it first")
        self._process = MockClusterProcess(self._brokers, self._command_timeout, self._port or 0)
        try:
            self._api_versions = dict(self._process.implemented_versions)
            self.create_topics(self._topics, self._replication_factor)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the process. Can be called twice. Afterwards the cluster can be started again."""
        process, self._process = self._process, None
        if process is not None:
            process.close()
        self._release(self._meant(ALL_BROKERS))

    def wait(self) -> None:
        """Block until the process ends. This only happens in a crash, which raises an error."""
        self._running.wait()

    @property
    def process_id(self) -> int:
        """The process id of the cluster's process."""
        return self._running.process_id

    @property
    def librdkafka_version(self) -> str:
        """The version of librdkafka, such as ``"2.16.0"``."""
        return self._running.librdkafka_version


PORT: Final = 9092
"""The port of the first broker, as of Kafka."""
DESCRIPTION: Final = (
    "Run a mock Kafka cluster on this machine until Ctrl-C, in memory, without Java. A topic is "
    "created when a client first sends to it, with 4 partitions."
)


def run(brokers: int, topics: Iterable[str], port: int) -> None:
    """Say on standard output where the cluster is, and run until interrupted.

    ``topics``: a name each, or ``name:partitions``. ``port`` 0: the system chooses.

    Raises:
        MockClusterArgumentError: a number is out of its range, or a topic has none.
        MockClusterError: it can't listen there.
        MissingExtraError: there is no librdkafka.
    """
    cluster = MockCluster(brokers, dict(map(_topic, topics)), port=port or None)
    with cluster, suppress(KeyboardInterrupt):
        sys.stdout.write(f"Mock cluster ready at {cluster.bootstrap_servers}. Ctrl-C stops it.\n")
        sys.stdout.flush()
        cluster.wait()


def _topic(text: str) -> tuple[str, int]:
    name, colon, partitions = text.partition(":")
    if not colon:
        return name, 1
    if not partitions.isdecimal():
        raise MockClusterArgumentError(f"--topic {text}: write NAME or NAME:PARTITIONS")
    return name, int(partitions)
