"""`python -m aioproducer.testing.mock_cluster`: a mock cluster until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from aioproducer.errors import MissingExtraError
from aioproducer.loops import open_standard_descriptors
from aioproducer.testing.mock_cluster import MockClusterArgumentError, MockClusterError
from aioproducer.testing.mock_cluster.cluster import DESCRIPTION, PORT, run


def main(argv: Sequence[str] | None = None) -> None:
    """Say where the cluster is, and run until interrupted."""
    parser = argparse.ArgumentParser(
        "python -m aioproducer.testing.mock_cluster", description=DESCRIPTION
    )
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        help="the port of the first broker (default: %(default)s); 0: any free one",
    )
    parser.add_argument("--brokers", type=int, default=1, help="their number (default: 1)")
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        dest="topics",
        help="a topic that is there from the start; repeatable",
    )
    options = parser.parse_args(argv)
    open_standard_descriptors()
    if sys.stdout is None:
        parser.error("standard output is closed: nobody would know the bootstrap servers")
    try:
        run(options.brokers, options.topics, options.port)
    except (MissingExtraError, MockClusterArgumentError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    except MockClusterError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")


if __name__ == "__main__":
    main()
