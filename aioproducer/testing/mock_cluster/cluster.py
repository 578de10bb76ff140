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
            raise IllegalStateError("the mock cluster is started already; close() it first")
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
