"""`python -m aioproducer.testing.mock_cluster`: a mock cluster until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress

from aioproducer.errors import MissingExtraError
from aioproducer.loops import open_standard_descriptors
from aioproducer.testing.mock_cluster import MockCluster


def main(argv: Sequence[str] | None = None) -> None:
    """Print the bootstrap servers in one line, and run until interrupted."""
    parser = argparse.ArgumentParser(
        "python -m aioproducer.testing.mock_cluster",
        description="A mock Kafka cluster; it runs until interrupted (Ctrl-C).",
    )
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument(
        "--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", dest="topics"
    )
    options = parser.parse_args(argv)
    open_standard_descriptors()
    if sys.stdout is None:
        parser.error("standard output is closed: nobody would know the bootstrap servers")
    topics = {}
    for topic in options.topics:
        name, _, partitions = topic.partition(":")
        topics[name] = int(partitions or 1)
    try:
        with MockCluster(options.brokers, topics) as cluster, suppress(KeyboardInterrupt):
            sys.stdout.write(cluster.bootstrap_servers + "\n")
            sys.stdout.flush()
            cluster.wait()
    except MissingExtraError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
