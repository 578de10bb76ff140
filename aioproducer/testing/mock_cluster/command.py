"""A mock cluster in the foreground, for the two commands that start one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from aioproducer.testing.mock_cluster.cluster import MockCluster
from aioproducer.testing.mock_cluster.process import MockClusterArgumentError

__all__ = ["DESCRIPTION", "PORT", "run"]

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
