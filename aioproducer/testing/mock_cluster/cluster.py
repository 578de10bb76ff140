"""The mock cluster as tests see it: its start, its end, and all groups of its commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from aioproducer.errors import IllegalStateError
from aioproducer.testing.mock_cluster.brokers import Brokers
from aioproducer.testing.mock_cluster.commands import ALL_BROKERS, check_range
from aioproducer.testing.mock_cluster.process import MockClusterError, MockClusterProcess
from aioproducer.testing.mock_cluster.request_errors import RequestErrors
from aioproducer.testing.mock_cluster.request_tracking import RequestTracking
from aioproducer.testing.mock_cluster.telemetry import Telemetry
from aioproducer.testing.mock_cluster.topics import Topics

__all__ = ["MockCluster"]


class MockCluster(Topics, Brokers, RequestErrors, RequestTracking, Telemetry):
    """A mock cluster in a process of its own; a context manager, with and without ``async``.

    Its brokers have the ids 1 to `brokers` and hold no more than 5 MiB per partition: older batches
    are forgotten. A topic that a client requests is created with 4 partitions, unless the client
    forbids it. Unlike Kafka's, these brokers respond to requests with ``acks=0`` as well, so a
    connection with such requests ends again and again.

    Every method blocks for the fraction of a millisecond that a command takes, entering the context
    for some tens of milliseconds. Methods may be called from any thread.

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

        `port` is that of the first broker at localhost, and the others have the next ones. By
        default each broker gets a free port, so that tests can run side by side.
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
        """Start the process and create the topics. Entering the context does it."""
        if self._process is not None:
            raise IllegalStateError("the mock cluster is started already; close() it first")
        self._process = MockClusterProcess(self._brokers, self._command_timeout, self._port or 0)
        try:
            self._api_versions = dict(self._process.implemented_versions)
            self.create_topics(self._topics, self._replication_factor)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process. Can be called twice; after it the cluster can be started again."""
        process, self._process = self._process, None
        if process is not None:
            process.close()
        self._release(self._meant(ALL_BROKERS))

    def wait(self) -> None:
        """Block until the process ends, which it does by itself only in a crash: an error then."""
        self._running.wait()

    @property
    def process_id(self) -> int:
        """The operating system's id of the process that plays the cluster."""
        return self._running.process_id

    @property
    def librdkafka_version(self) -> str:
        """The version of the library that plays the cluster, as ``"2.16.0"``."""
        return self._running.librdkafka_version
