"""``python -m benchmarks.spark.kills``: our sink and Spark's, killed at random, on one Kafka."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random, SystemRandom

from aioproducer.testing.kafka_cluster import KafkaCluster
from benchmarks.spark.kills.random_kills import PARTITIONS, Outcome, run_under_kills
from benchmarks.spark.kills.sinks import SINKS

_HEAD = ("sink", "micro-batches", "kills", "starts", "missing", "duplicated", "seconds")


def main() -> int:
    """1 when a row of exactly once is missing, or there twice."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark.kills", description=__doc__)
    parser.add_argument("--batches", type=int, default=50, help="default: %(default)s")
    parser.add_argument("--kills", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--protocol", type=int, choices=(1, 2), default=2, help="of transactions")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    outcomes = []
    protocol = ("--feature", f"transaction.version={options.protocol}")
    with (
        KafkaCluster(brokers=3, format_options=protocol) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        for number, sink in enumerate(SINKS):
            topic, place = f"killed-{number}", Path(folder) / str(number)
            place.mkdir()
            asyncio.run(cluster.create_topic(topic, PARTITIONS, replication_factor=3))
            outcomes.append(
                run_under_kills(
                    sink,
                    cluster.bootstrap_servers,
                    topic,
                    place,
                    batches=options.batches,
                    kills=options.kills,
                    random=Random(options.seed),
                )
            )
            print(*table(outcomes), sep="\n", flush=True)
    return int(bool(outcomes[0].seen.missing or outcomes[0].seen.duplicated))


def table(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """One line for each sink."""
    yield f"{_HEAD[0]:28}" + "".join(f"{name:>15}" for name in _HEAD[1:])
    for each in outcomes:
        cells = (
            *(each.batches, sum(each.killed.values()), each.starts),
            *(f"{each.seen.missing:,}", f"{each.seen.duplicated:,}", f"{each.seconds:.0f}"),
        )
        yield f"{each.sink:28}" + "".join(f"{cell:>15}" for cell in cells)


if __name__ == "__main__":
    raise SystemExit(main())
