"""KafkaCluster: starting, stopping and disturbing the brokers.

Everything that waits is blocking code, run in a thread by the asynchronous methods: a cluster is
bound to no event loop, and one started in a session fixture serves tests with loops of their own.

Brokers start with a class data archive (CDS, JEP 350) of Kafka, which halves the time. The first
cluster of a release creates the archive.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self, Unpack

from aioproducer.foundation.logs import plain_logger
from aioproducer.testing.kafka_cluster.broker import (
    CLIENT_LISTENER,
    CONTROLLER_LISTENER,
    INTERNAL_LISTENER,
    KafkaBroker,
)
from aioproducer.testing.kafka_cluster.broker_processes import (
    BrokerProcesses,
    KafkaClusterError,
    Launch,
    LaunchOptions,
)
from aioproducer.testing.kafka_distribution import (
    KafkaDistribution,
    KafkaRelease,
    KafkaUnavailableError,
    cache_lock,
)
from aioproducer.testing.ports import ReservedPort, free_ports

__all__ = [
    "ensure_class_archive",
    "KafkaCluster",
]


_HOST = "127.0.0.1"
_LISTENERS = (CLIENT_LISTENER, INTERNAL_LISTENER, CONTROLLER_LISTENER)

logger = plain_logger(__name__)


def ensure_class_archive(distribution: KafkaDistribution) -> None:
    """Make the archive if this Java has none yet: some 5 s, once. A failure is only logged.

    A JVM uses an archive only if build, classpath and jars are the same as when it was made, and
    otherwise starts without it.
    """
    archive = distribution.class_archive
    if archive.exists():
        return
    try:
        with cache_lock(archive.name):
            if not archive.exists():
                _make(distribution, archive)
    except (KafkaUnavailableError, KafkaClusterError, OSError) as error:
        logger.warning("no class archive for Kafka, brokers start slower: %s", error)


def _make(distribution: KafkaDistribution, archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="archive-", dir=archive.parent) as directory:
        made = Path(directory, archive.name)
        ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS), _HOST), strict=True))
        broker = KafkaBroker(1, _HOST, ports, ports[CLIENT_LISTENER], Path(directory))
        training = BrokerProcesses(
            brokers=[broker],
            directory=Path(directory),
            temporary=True,
            protocols=dict.fromkeys(_LISTENERS, "PLAINTEXT"),
            overrides={1: {}},
            launch=Launch(("-XX:+UseSerialGC", f"-XX:ArchiveClassesAtExit={made}")),
        )
        try:
            training.start(distribution, keep_logs=False)
            training.stop_broker(broker, timeout=120.0)
            os.replace(made, archive)
        finally:
            training.stop(keep_logs=False)


class KafkaCluster:
    """A Kafka cluster of `brokers` nodes (combined broker and controller) that listen only on
    loopback.

    `config` applies to all brokers, and `broker_config`, by node id (1, 2, 3), overrides it; the
    value None removes one of our defaults. `listeners` adds listeners to the one named
    ``PLAINTEXT``: name → security protocol, ``{"TLS": "SSL"}``. `port` is the port of the first
    broker for clients; the others use the following ports. By default every broker gets a free
    port, from the range ``AIOPRODUCER_PORTS`` (``20000-23999``) if the environment names one.
    `advertised_ports` (node id → port) replaces a broker's own port in its advertised
    address. With an authorizer, ``super.users`` must
    name ``User:ANONYMOUS``, the brokers' principal to each other.

    `launch` stands for up to four more keywords: `jvm_options` replaces `DEFAULT_JVM_OPTIONS`;
    `format_options` is passed to Kafka's StorageTool (``--add-scram``, ``--feature``);
    `start_timeout` is 120 seconds by default; `class_path` adds folders and jars to Kafka's own.

    `version` selects another Kafka release than the newest: its brokers, without its tools.
    Releases before 3.3 also get a ZooKeeper; a killed broker of such a release cannot restart
    before its session there has expired.

    Files are written to `directory`, which is kept (a second start finds the data), or to a
    temporary directory, which is removed at the end; its logs are kept after an exception, or with
    `keep_logs`, which you can set at any time. If the parent process dies, the brokers die too. A
    cluster object starts only once.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, object] | None = None,
        broker_config: Mapping[int, Mapping[str, object]] | None = None,
        listeners: Mapping[str, str] | None = None,
        port: int | None = None,
        advertised_ports: Mapping[int, int] | None = None,
        directory: str | os.PathLike[str] | None = None,
        keep_logs: bool = False,
        version: str | None = None,
        **launch: Unpack[LaunchOptions],
    ) -> None:
        if not 1 <= brokers <= 3:
            raise ValueError(f"a cluster has 1 to 3 brokers, not {brokers}")
        node_ids = range(1, brokers + 1)
        for name, ids in (("broker_config", broker_config), ("advertised_ports", advertised_ports)):
            if unknown := set(ids or ()) - set(node_ids):
                raise ValueError(f"{name} names brokers {sorted(unknown)} of {list(node_ids)}")
        self.keep_logs = keep_logs
        self._release = None if version is None else KafkaRelease(version)
        protocols = {
            CLIENT_LISTENER: "PLAINTEXT",
            INTERNAL_LISTENER: "PLAINTEXT",
            CONTROLLER_LISTENER: "PLAINTEXT",
            **(listeners or {}),
        }
        self._directory = (
            Path(tempfile.gettempdir(), f"aioproducer-kafka-{uuid.uuid4().hex[:12]}")
            if directory is None
            else Path(directory).absolute()
        )
        self._brokers = _new_brokers(
            node_ids, protocols, port, advertised_ports or {}, self._directory
        )
        self._processes = BrokerProcesses(
            brokers=self._brokers,
            directory=self._directory,
            temporary=directory is None,
            protocols=protocols,
            overrides={
                node_id: {**(config or {}), **(broker_config or {}).get(node_id, {})}
                for node_id in node_ids
            },
            launch=Launch(**launch),
        )

    @property
    def brokers(self) -> tuple[KafkaBroker, ...]:
        """All brokers, running or not, in the order of their node ids."""
        return self._brokers

    @property
    def directory(self) -> Path:
        """The directory of logs, data and the brokers' properties."""
        return self._directory

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,…` for clients, with the advertised ports."""
        return ",".join(f"{broker.host}:{broker.advertised_port}" for broker in self._brokers)

    def bootstrap_servers_of(self, listener: str) -> str:
        """`host:port,…` of another listener. ``INTERNAL`` always exists, without a proxy."""
        return ",".join(f"{broker.host}:{broker.ports[listener]}" for broker in self._brokers)

    @property
    def version(self) -> str:
        """The version of Kafka, such as ``4.3.1``."""
        return self._processes.distribution.release.version

    @property
    def classpath(self) -> str:
        """Kafka's jars, for Java's ``-cp``."""
        return self._processes.distribution.classpath

    async def start(self) -> None:
        """Start the cluster. Returns when every broker answers and knows the others.

        Raises KafkaUnavailableError (no Java, no Maven) or KafkaClusterError.
        """
        try:
            await asyncio.to_thread(self._start)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.to_thread(self._stop))
            raise

    async def stop(self) -> None:
        """Kill the brokers at once, and remove the temporary files."""
        await asyncio.to_thread(self._stop)

    async def start_broker(self, node_id: int) -> None:
        """Start a stopped or killed broker. Returns when it answers as a member of the cluster."""
        await asyncio.to_thread(self._processes.start_broker, self.broker(node_id))

    async def stop_broker(self, node_id: int, timeout: float = 30.0) -> None:
        """Send SIGTERM: the broker hands over its partitions' leadership. After `timeout` seconds
        send SIGKILL."""
        await asyncio.to_thread(self._processes.stop_broker, self.broker(node_id), timeout)

    async def kill_broker(self, node_id: int) -> None:
        """Send SIGKILL. The others notice after `broker.session.timeout.ms`, which is 4 s here."""
        await asyncio.to_thread(self._processes.kill_broker, self.broker(node_id))

    async def pause_broker(self, node_id: int) -> None:
        """Send SIGSTOP: connections stay open but silent. Returns when the process has stopped."""
        await asyncio.to_thread(self._processes.pause_broker, self.broker(node_id))

    async def resume_broker(self, node_id: int) -> None:
        """Send SIGCONT."""
        self._processes.resume_broker(self.broker(node_id))

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, object] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Create a topic. Returns when every broker knows it and a leader for each partition."""
        settings = {key: str(value) for key, value in (config or {}).items()}
        await asyncio.to_thread(
            self._processes.create_topic, name, partitions, replication_factor, settings, timeout
        )

    async def tool(
        self,
        main_class: str,
        *args: str,
        input: str | None = None,  # noqa: A002 -- subprocess.run's name for it
        timeout: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's Java tools on the cluster's classpath. Its exit code is not checked.

        All tools are in `kafka.tools.…` and `org.apache.kafka.tools.…`; they warn on stderr.
        Raises KafkaClusterError after `timeout` seconds, and the tool is killed.
        """
        return await asyncio.to_thread(self._processes.run_tool, main_class, args, input, timeout)

    def broker(self, node_id: int) -> KafkaBroker:
        """Return the broker with this id. Raises ValueError if there is none."""
        for broker in self._brokers:
            if broker.node_id == node_id:
                return broker
        raise ValueError(f"no broker {node_id}: there are {[b.node_id for b in self._brokers]}")

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._keep_logs_for(error)
        await self.stop()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._keep_logs_for(error)
        self._stop()

    def _keep_logs_for(self, exc: BaseException | None) -> None:
        if isinstance(exc, Exception):
            self.keep_logs = True
            exc.add_note(f"The logs of the Kafka brokers are in {self._directory}")

    def _start(self) -> None:
        distribution = KafkaDistribution.resolve(self._release)
        if distribution.release.is_of_the_pom:
            ensure_class_archive(distribution)
        self._processes.start(distribution, self.keep_logs)

    def _stop(self) -> None:
        self._processes.stop(self.keep_logs)


def _new_brokers(
    node_ids: Sequence[int],
    listeners: Mapping[str, str],
    port: int | None,
    advertised_ports: Mapping[int, int],
    directory: Path,
) -> tuple[KafkaBroker, ...]:
    """Raises :class:`KafkaClusterError` if another server listens at a port that is asked for."""
    asked = [] if port is None else [_unused(port + number) for number in range(len(node_ids))]
    found = free_ports(len(node_ids) * len(listeners) + len(asked), _HOST)
    free = iter([each for each in found if each not in asked])
    brokers = []
    for node_id in node_ids:
        ports = {name: next(free) for name in listeners}
        if asked:
            ports[CLIENT_LISTENER] = asked[node_id - 1]
        advertised = advertised_ports.get(node_id, ports[CLIENT_LISTENER])
        brokers.append(KafkaBroker(node_id, _HOST, ports, advertised, directory))
    return tuple(brokers)


def _unused(port: int) -> int:
    if not 1 <= port <= 65535:
        raise ValueError(f"a port is a number from 1 to 65535, not {port}")
    try:
        ReservedPort(_HOST, port).release()
    except OSError as error:
        raise KafkaClusterError(
            f"port {port} can't be used: {error.strerror}. Stop its server, or choose another port"
        ) from None
    return port
