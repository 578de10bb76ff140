"""A class data archive (CDS, JEP 350) of Kafka: with it a broker starts in half the time."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from aioproducer.foundation.logs import plain_logger
from aioproducer.testing.kafka_cluster.broker import (
    CLIENT_LISTENER,
    CONTROLLER_LISTENER,
    INTERNAL_LISTENER,
    KafkaBroker,
)
from aioproducer.testing.kafka_cluster.broker_processes import BrokerProcesses, KafkaClusterError
from aioproducer.testing.kafka_cluster.launch import Launch
from aioproducer.testing.kafka_distribution import (
    KafkaDistribution,
    KafkaUnavailableError,
    cache_lock,
)
from aioproducer.testing.ports import free_ports

__all__ = ["ensure_class_archive"]

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
