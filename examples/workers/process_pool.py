"""A pool of processes with one producer per process.

    python examples/workers/process_pool.py fork|spawn|forkserver

A ProducerConfig can be pickled, a Producer cannot. Each process creates its producer from the
configuration, and closes it on exit.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

from aioproducer import ProducerConfig
from aioproducer.sync import Producer

producer: Producer


def start_producer(config: ProducerConfig) -> None:
    """Run once in each process of the pool, before any task."""
    global producer
    producer = Producer(config)
    producer.start()  # closed when the process exits


def publish(number: int) -> int:
    """Send a batch of orders. Return when all are in Kafka."""
    report = producer.send_many("orders", [b"order %d-%d" % (number, n) for n in range(10)])
    report.raise_for_failures()
    return report.delivered


def main() -> None:
    """Send 20 batches from 2 processes."""
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    context = multiprocessing.get_context(sys.argv[1] if len(sys.argv) > 1 else None)
    with ProcessPoolExecutor(
        2,
        mp_context=context,
        initializer=start_producer,
        initargs=(ProducerConfig(bootstrap_servers=servers),),
    ) as pool:
        print(sum(pool.map(publish, range(20))), "orders delivered")


if __name__ == "__main__":
    main()
