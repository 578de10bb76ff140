"""One node of the cluster: its addresses, its files, its configuration, its process."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CLIENT_LISTENER", "CONTROLLER_LISTENER", "INTERNAL_LISTENER", "KafkaBroker"]

CLIENT_LISTENER = "PLAINTEXT"
# Brokers talk to each other on a listener of their own: a fault proxy that the client listener
# advertises stands between clients and brokers only.
INTERNAL_LISTENER = "INTERNAL"
CONTROLLER_LISTENER = "CONTROLLER"

_STARTED = re.compile(r"Kafka Server started|\] started \(kafka\.server\.KafkaServer\)")
_ERROR = re.compile(r"\[[^]]+\] (ERROR|FATAL) |Error|Exception in thread")


@dataclass(slots=True)
class KafkaBroker:
    """A broker of a `KafkaCluster`. Its addresses are known before it starts."""

    node_id: int
    host: str
    ports: Mapping[str, int]
    """The port of each listener, by the listener's name."""
    advertised_port: int
    """The advertised port: `port`, unless a proxy is before the broker."""
    directory: Path
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    paused: bool = False
    _log_start: int = field(default=0, repr=False)

    @property
    def port(self) -> int:
        """The port of the listener for clients."""
        return self.ports[CLIENT_LISTENER]

    @property
    def pid(self) -> int | None:
        """The process id; None if the broker is not running."""
        return self.process.pid if self.process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """True if the broker is running, even if paused."""
        return self.process is not None and self.process.poll() is None

    @property
    def log_file(self) -> Path:
        return self.directory / f"broker-{self.node_id}.log"

    @property
    def data_dir(self) -> Path:
        return self.directory / f"broker-{self.node_id}"

    @property
    def properties_file(self) -> Path:
        return self.directory / f"broker-{self.node_id}.properties"

    @property
    def is_formatted(self) -> bool:
        return (self.data_dir / "meta.properties").exists()

    @property
    def zookeeper_directory(self) -> Path:
        return self.directory / "zookeeper"

    @property
    def zookeeper_properties_file(self) -> Path:
        return self.directory / "zookeeper.properties"

    @property
    def internal_address(self) -> tuple[str, int]:
        return self.host, self.ports[INTERNAL_LISTENER]

    @property
    def has_started(self) -> bool:
        """True when its log reports it, which is after all its listeners were bound."""
        return any(_STARTED.search(line) for line in self._log_of_this_run())

    def log_excerpt(self, lines: int = 30) -> str:
        """The log of this run from its first error on, and its end: `lines` lines of each."""
        log = self._log_of_this_run()
        errors = (number for number, line in enumerate(log) if _ERROR.match(line))
        tail = max(0, len(log) - lines)
        first = min(next(errors, tail), tail)
        if first + lines >= tail:
            return "\n".join(log[first:])
        return "\n".join([*log[first : first + lines], "...", *log[tail:]])

    def run(self, process: subprocess.Popen[bytes], log_start: int) -> None:
        """Take over a process, whose log begins at `log_start` bytes into the log file."""
        self.process = process
        self.paused = False
        self._log_start = log_start

    def _log_of_this_run(self) -> list[str]:
        try:
            with self.log_file.open("rb") as log:
                log.seek(self._log_start)
                return log.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return []

    def write_properties(
        self,
        peers: Sequence[KafkaBroker],
        protocols: Mapping[str, str],
        overrides: Mapping[str, object],
        *,
        with_zookeeper: bool = False,
    ) -> None:
        """Write the configuration; an override of None takes a line out."""
        membership = self._of_zookeeper(peers) if with_zookeeper else self._of_quorum(peers)
        _write_properties(
            self.properties_file,
            {
                **membership,
                **self._listeners(protocols, with_zookeeper),
                **_test_defaults(len(peers)),
                **overrides,
            },
        )

    def _of_quorum(self, peers: Sequence[KafkaBroker]) -> dict[str, object]:
        return {
            "process.roles": "broker,controller",
            "node.id": self.node_id,
            "controller.quorum.voters": ",".join(
                f"{peer.node_id}@{peer.host}:{peer.ports[CONTROLLER_LISTENER]}" for peer in peers
            ),
            "controller.listener.names": CONTROLLER_LISTENER,
        }

    def _of_zookeeper(self, peers: Sequence[KafkaBroker]) -> dict[str, object]:
        return {
            "broker.id": self.node_id,
            "zookeeper.connect": f"{peers[0].host}:{peers[0].ports[CONTROLLER_LISTENER]}",
            "zookeeper.connection.timeout.ms": 60_000,
        }

    def _listeners(self, protocols: Mapping[str, str], with_zookeeper: bool) -> dict[str, object]:
        advertised = {**self.ports, CLIENT_LISTENER: self.advertised_port}
        del advertised[CONTROLLER_LISTENER]
        bound = {name: self.ports[name] for name in advertised} if with_zookeeper else self.ports
        return {
            "listeners": self._endpoints(bound),
            "advertised.listeners": self._endpoints(advertised),
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in protocols.items()
            ),
            "inter.broker.listener.name": INTERNAL_LISTENER,
            "log.dirs": self.data_dir,
        }

    def write_zookeeper_properties(self) -> None:
        """Write ZooKeeper's configuration, on the port of the first broker's controller."""
        _write_properties(
            self.zookeeper_properties_file,
            {
                "dataDir": self.zookeeper_directory,
                "clientPort": self.ports[CONTROLLER_LISTENER],
                "clientPortAddress": self.host,
                "maxClientCnxns": 0,
                "admin.enableServer": False,
            },
        )

    def _endpoints(self, ports: Mapping[str, int]) -> str:
        return ",".join(f"{name}://{self.host}:{port}" for name, port in ports.items())


def _write_properties(path: Path, properties: Mapping[str, object]) -> None:
    text = "".join(
        f"{name}={_java_value(value)}\n" for name, value in properties.items() if value is not None
    )
    path.write_text(text, encoding="utf-8")


def _test_defaults(brokers: int) -> dict[str, object]:
    replication = min(3, brokers)
    return {
        "num.partitions": 1,
        "auto.create.topics.enable": True,
        "min.insync.replicas": 1,
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 4,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 4,
        "group.initial.rebalance.delay.ms": 0,
        # Records of any timestamp are kept: Kafka would delete last week's within minutes, before
        # they are read.
        "log.retention.ms": -1,
        # A killed broker is noticed, and may come back, after this time instead of 9 s.
        "broker.session.timeout.ms": 4000,
        "broker.heartbeat.interval.ms": 500,
        # An idle quorum would write, replicate and flush a record without content twice a second.
        "metadata.max.idle.interval.ms": 0,
        # The default of 128 MiB is half of the heap.
        "log.cleaner.dedupe.buffer.size": 4 * 1024 * 1024,
    }


def _java_value(value: object) -> str:
    """A value for a Java properties file: ASCII, line ends (of a PEM key, say) escaped."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).replace("\\", "\\\\").replace("\r", "\\r").replace("\n", "\\n")
    return "".join(char if char.isascii() else f"\\u{ord(char):04x}" for char in text)
