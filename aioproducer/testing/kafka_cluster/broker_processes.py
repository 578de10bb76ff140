"""The blocking core of KafkaCluster: broker processes, their start, their end.

:class:`LaunchOptions` has the options of a start. The readiness of a broker is found out by
requests to it, each over a blocking connection of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypedDict
from uuid import uuid4

from aioproducer.engine.network.frames import (
    LENGTH_BYTES,
    decode_response,
    encode_request,
    encoded,
    request_form,
)
from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors.broker import code_name
from aioproducer.foundation.logs import duration
from aioproducer.testing.kafka_cluster.broker import KafkaBroker
from aioproducer.testing.kafka_distribution import KafkaDistribution
from aioproducer.testing.processes import ProcessSupervisor

__all__ = [
    "DEFAULT_JVM_OPTIONS",
    "Launch",
    "LaunchOptions",
    "create_topic",
    "metadata",
    "BrokerProcesses",
    "KafkaClusterError",
]


DEFAULT_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of the JVM for a fast start and little memory."""


class LaunchOptions(TypedDict, total=False):
    """The options as keywords of `KafkaCluster`."""

    jvm_options: Sequence[str]
    format_options: Sequence[str]
    start_timeout: float
    class_path: Sequence[str]


def _new_cluster_id() -> str:
    """Sixteen bytes as Kafka writes them; none begins like an option."""
    return f"A{urlsafe_b64encode(uuid4().bytes).decode()[1:22]}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The options with their defaults."""

    jvm_options: Sequence[str] = DEFAULT_JVM_OPTIONS
    format_options: Sequence[str] = ()
    """For Kafka's StorageTool, before the first start."""
    start_timeout: float = 120.0
    """Seconds, for all brokers together."""
    class_path: Sequence[str] = ()
    """Folders and jars with further classes, such as a metrics reporter."""
    cluster_id: str = field(default_factory=_new_cluster_id)
    """Clusters with equal ids would be one cluster to a client."""


_VERSIONS: Final = {Api.METADATA: 6, Api.CREATE_TOPICS: 3}
"""The common ground of Kafka 2.0 and Kafka 4."""


def metadata(address: tuple[str, int], *topics: str, timeout: float = 5.0) -> Any:
    """The brokers this broker knows, and these topics; raises OSError."""
    schema = request_schema(Api.METADATA)
    request = schema.MetadataRequest(
        topics=[schema.MetadataRequestTopic(name=topic) for topic in topics],
        allow_auto_topic_creation=False,
    )
    return _ask(address, Api.METADATA, request, timeout)


def create_topic(
    address: tuple[str, int],
    name: str,
    partitions: int,
    replication_factor: int,
    config: Mapping[str, str],
    timeout: float,
) -> Any:
    """Create a topic by any broker, or with ZooKeeper by the controller; raises OSError."""
    schema = request_schema(Api.CREATE_TOPICS)
    topic = schema.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[
            schema.CreatableTopicConfig(name=key, value=value) for key, value in config.items()
        ],
    )
    request = schema.CreateTopicsRequest(topics=[topic], timeout_ms=round(timeout * 1000))
    return _ask(address, Api.CREATE_TOPICS, request, timeout + 5).topics[0]


def _ask(address: tuple[str, int], api: Api, request: Any, timeout: float) -> Any:
    version = _VERSIONS[api]
    form = request_form(api, version, "aioproducer-testing")
    pieces, _ = encode_request(encoded(api, version, request).parts, 0, form)
    with (
        socket.create_connection(address, timeout) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(b"".join(pieces))
        size = int.from_bytes(stream.read(LENGTH_BYTES), "big")
        answer = stream.read(size)
    if not answer or len(answer) < size:
        raise ConnectionError("the broker closed the connection")
    return decode_response(api, version, answer).response


_POLL = 0.02
_FORMAT_TIMEOUT = 120.0
_TOOL_JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class KafkaClusterError(RuntimeError):
    """A command of the cluster or a tool failed; the message has the reason and names the logs."""


@dataclass(slots=True)
class BrokerProcesses:
    """Brokers that live and die together; any method may be called from any thread."""

    brokers: Sequence[KafkaBroker]
    directory: Path
    temporary: bool
    protocols: Mapping[str, str]
    overrides: Mapping[int, Mapping[str, object]]
    launch: Launch
    _distribution: KafkaDistribution | None = None
    _supervisor: ProcessSupervisor | None = None
    _life: threading.Lock = field(default_factory=threading.Lock)
    _stop_requested: threading.Event = field(default_factory=threading.Event)

    @property
    def distribution(self) -> KafkaDistribution:
        if self._distribution is None:
            raise KafkaClusterError("the cluster was not started")
        return self._distribution

    @property
    def supervisor(self) -> ProcessSupervisor:
        if self._supervisor is None or self._stop_requested.is_set():
            raise KafkaClusterError("the cluster is not running")
        return self._supervisor

    def start(self, distribution: KafkaDistribution, keep_logs: bool) -> None:
        """Return when every broker knows every other; raises KafkaClusterError."""
        with self._life:
            if self._supervisor is not None or self._stop_requested.is_set():
                raise KafkaClusterError("a cluster starts once: make another one")
            self._distribution = distribution
            self._supervisor = ProcessSupervisor()
            try:
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                if self.temporary and not keep_logs:
                    self._supervisor.remove_at_end(self.directory)
                if distribution.release.uses_zookeeper:
                    self._launch_zookeeper()
                with ThreadPoolExecutor(len(self.brokers)) as pool:
                    list(pool.map(self._format_and_launch, self.brokers))
                self._wait_until_members(self.brokers)
            except BaseException as error:
                failed = isinstance(error, Exception) and not self._stop_requested.is_set()
                self._end(keep_logs or failed)
                raise

    def stop(self, keep_logs: bool) -> None:
        """Kill the brokers; can be called twice, and while another thread is in `start`."""
        self._stop_requested.set()
        with self._life:
            self._end(keep_logs)

    def start_broker(self, broker: KafkaBroker) -> None:
        """Return when all responding brokers know the broker as a member."""
        if broker.is_running:
            raise KafkaClusterError(f"broker {broker.node_id} is already running")
        self._launch(broker)
        self._wait_until_members([broker])

    def stop_broker(self, broker: KafkaBroker, timeout: float) -> None:
        self.supervisor.stop(_running(broker), timeout)
        broker.paused = False

    def kill_broker(self, broker: KafkaBroker) -> None:
        self.supervisor.kill(_running(broker))
        broker.paused = False

    def pause_broker(self, broker: KafkaBroker) -> None:
        process = _running(broker)
        if broker.paused:
            return
        broker.paused = True
        process.send_signal(signal.SIGSTOP)
        # The signal is sent; the wait ends when the last of the broker's threads stands still.
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            if not os.WIFSTOPPED(status):
                process.returncode = os.waitstatus_to_exitcode(status)

    def resume_broker(self, broker: KafkaBroker) -> None:
        _running(broker).send_signal(signal.SIGCONT)
        broker.paused = False

    def create_topic(
        self,
        name: str,
        partitions: int,
        replication_factor: int,
        config: Mapping[str, str],
        timeout: float,
    ) -> None:
        deadline = time.monotonic() + timeout
        result = create_topic(
            self._controller().internal_address,
            name,
            partitions,
            replication_factor,
            config,
            timeout,
        )
        if result.error_code:
            reason = result.error_message or ""
            raise KafkaClusterError(
                f"topic {name!r}: {code_name(result.error_code)} {reason}".rstrip()
            )
        for broker in self._answering():
            while broker.is_running and not _has_leaders(broker, name, partitions):
                if time.monotonic() > deadline:
                    raise KafkaClusterError(
                        f"topic {name!r} was created, but after {duration(timeout)} broker "
                        f"{broker.node_id} does not know a leader for each of its partitions"
                    )
                time.sleep(_POLL)

    def run_tool(
        self, main_class: str, args: Sequence[str], text: str | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        command = self.distribution.command(
            main_class, *args, jvm_options=_TOOL_JVM_OPTIONS, log_level="WARN"
        )
        child = self.supervisor.start(
            command,
            stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = child.communicate(None if text is None else text.encode(), timeout)
        except subprocess.TimeoutExpired as late:
            raise KafkaClusterError(
                f"{main_class} did not end within {duration(timeout)}; it had printed: "
                f"{(late.stdout or b'')[-2000:]!r} {(late.stderr or b'')[-2000:]!r}"
            ) from None
        finally:
            self.supervisor.kill(child)
        return subprocess.CompletedProcess(
            [main_class, *args],
            child.returncode,
            out.decode(errors="replace"),
            err.decode(errors="replace"),
        )

    def _format_and_launch(self, broker: KafkaBroker) -> None:
        with_zookeeper = self.distribution.release.uses_zookeeper
        broker.write_properties(
            self.brokers,
            self.protocols,
            self.overrides[broker.node_id],
            with_zookeeper=with_zookeeper,
        )
        if not with_zookeeper and not broker.is_formatted:
            tool = self.run_tool(
                "kafka.tools.StorageTool",
                [
                    *("format", "--config", str(broker.properties_file)),
                    *("--cluster-id", self.launch.cluster_id, *self.launch.format_options),
                ],
                None,
                _FORMAT_TIMEOUT,
            )
            if tool.returncode != 0:
                raise KafkaClusterError(
                    f"the storage of broker {broker.node_id} could not be formatted with "
                    f"{broker.properties_file}:\n{tool.stdout}{tool.stderr}"
                )
        self._launch(broker)

    def _launch_zookeeper(self) -> None:
        """Start ZooKeeper. Brokers wait for it, so this call does not."""
        first = self.brokers[0]
        first.write_zookeeper_properties()
        command = self.distribution.command(
            "org.apache.zookeeper.server.quorum.QuorumPeerMain",
            str(first.zookeeper_properties_file),
            jvm_options=self.launch.jvm_options,
        )
        with (self.directory / "zookeeper.log").open("ab") as log:
            self.supervisor.start(command, stdout=log, stderr=log, cwd=self.directory)

    def _launch(self, broker: KafkaBroker) -> None:
        command = self.distribution.command(
            "kafka.Kafka",
            str(broker.properties_file),
            jvm_options=self.launch.jvm_options,
            class_path=self.launch.class_path,
        )
        with broker.log_file.open("ab") as log:
            log_start = log.tell()
            process = self.supervisor.start(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
            )
            broker.run(process, log_start)

    def _wait_until_members(self, starting: Collection[KafkaBroker]) -> None:
        wanted = {broker.node_id for broker in starting}
        deadline = time.monotonic() + self.launch.start_timeout
        for broker in self.brokers:
            while broker.is_running and not broker.paused:
                missing = wanted - _members_known_to(broker)
                if not missing and (broker not in starting or broker.has_started):
                    break
                self._check_start(starting)
                if time.monotonic() > deadline:
                    raise KafkaClusterError(
                        f"broker {broker.node_id} is not ready after "
                        f"{duration(self.launch.start_timeout)}; it does not know the brokers "
                        f"{sorted(missing)}. {_log(broker)}"
                    )
                time.sleep(_POLL)
        self._check_start(starting)

    def _check_start(self, starting: Collection[KafkaBroker]) -> None:
        if self._stop_requested.is_set():
            raise KafkaClusterError("the cluster was stopped while it started")
        for broker in starting:
            if broker.process is not None and (exit_code := broker.process.poll()) is not None:
                raise KafkaClusterError(
                    f"broker {broker.node_id} ended while it started, with exit code {exit_code}. "
                    f"{_log(broker)}"
                )

    def _controller(self) -> KafkaBroker:
        """The broker for requests about topics. (Without ZooKeeper any broker forwards them.)"""
        answering = self._answering()
        if not self.distribution.release.uses_zookeeper:
            return answering[0]
        controller = metadata(answering[0].internal_address).controller_id
        return next((each for each in answering if each.node_id == controller), answering[0])

    def _answering(self) -> list[KafkaBroker]:
        answering = [broker for broker in self.brokers if broker.is_running and not broker.paused]
        if not answering:
            raise KafkaClusterError("no broker runs")
        return answering

    def _end(self, keep_logs: bool) -> None:
        if self._supervisor is None:
            return
        with contextlib.suppress(OSError, ValueError):  # it was closed before
            if self.temporary and keep_logs:
                self._supervisor.keep(self.directory)
        self._supervisor.close()
        if self.temporary and keep_logs:
            for broker in self.brokers:
                shutil.rmtree(broker.data_dir, ignore_errors=True)
                shutil.rmtree(broker.zookeeper_directory, ignore_errors=True)


def _running(broker: KafkaBroker) -> subprocess.Popen[bytes]:
    if broker.process is None or not broker.is_running:
        raise KafkaClusterError(f"broker {broker.node_id} is not running")
    return broker.process


def _members_known_to(broker: KafkaBroker) -> set[int]:
    try:
        return {member.node_id for member in metadata(broker.internal_address).brokers}
    except OSError:
        return set()


def _has_leaders(broker: KafkaBroker, topic: str, partitions: int) -> bool:
    try:
        known = metadata(broker.internal_address, topic).topics[0].partitions
    except OSError:
        return False
    return len(known) == partitions and not any(partition.error_code for partition in known)


def _log(broker: KafkaBroker) -> str:
    return f"From its log, {broker.log_file}:\n{broker.log_excerpt()}"
