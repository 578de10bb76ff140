"""`python -m aioproducer.testing.kafka_cluster`: a Kafka until Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import time
from collections.abc import Sequence
from typing import Final

from aioproducer.loops import open_standard_descriptors
from aioproducer.testing.kafka_cluster import KafkaCluster, KafkaClusterError, KafkaUnavailableError

_LOOK_EVERY_SECONDS: Final = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """The exit status: 0 after Ctrl-C or SIGTERM, 1 when Kafka could not be started,
    or all its brokers have ended."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    open_standard_descriptors()
    if sys.stdout is None:
        parser.error("standard output is closed: no one would know the bootstrap servers")
    logging.basicConfig(format="%(message)s")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster = KafkaCluster(
            arguments.brokers,
            config=dict(arguments.config),
            port=arguments.port,
            directory=arguments.directory,
            version=arguments.version,
        )
        with cluster:
            sys.stdout.write(f"{cluster.bootstrap_servers}\n")
            sys.stdout.flush()
            return _watch(cluster)
    except KeyboardInterrupt:
        return 0
    except (KafkaClusterError, KafkaUnavailableError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _watch(cluster: KafkaCluster) -> int:
    """Say which brokers end; returns once all have."""
    running = cluster.brokers
    while running:
        time.sleep(_LOOK_EVERY_SECONDS)
        ended = [each for each in running if not each.is_running]
        for broker in ended:
            assert broker.process is not None
            sys.stderr.write(
                f"broker {broker.node_id} has ended, with exit code {broker.process.returncode}; "
                "run again with --directory PATH to keep its log\n"
            )
        running = tuple(each for each in running if each not in ended)
    sys.stderr.write("no broker is left, so the cluster ends\n")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m aioproducer.testing.kafka_cluster",
        description="Run real Kafka brokers on this machine; prints the bootstrap servers when "
        "ready, ends with Ctrl-C or SIGTERM.",
    )
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 2, 3))
    parser.add_argument(
        "--port", type=int, help="of the first broker; the others follow (default: free ports)"
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="a broker setting; may be repeated",
    )
    parser.add_argument("--version", help="another release of Kafka, such as 3.9.2")
    parser.add_argument("--directory", help="where data and logs go and stay (default: temporary)")
    return parser


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()


if __name__ == "__main__":
    sys.exit(main())
