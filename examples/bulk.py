"""Many records, two ways: ``python examples/bulk.py [host:port]``.

``send_many()`` is one awaitable and returns a report. A loop of ``send()`` and ``drain()`` gives
you a future per record. Neither waits for one record before sending the next.
"""

import os
import sys
import time
from collections import Counter

from aioproducer import Producer, ProducerRecord, loops

SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)
RECORDS = 100_000


async def in_bulk(producer: Producer) -> None:
    """Send an iterable of records; values and asynchronous iterables work too."""
    records = (
        ProducerRecord("measurements", f"{number}", key=f"sensor-{number % 50}")
        for number in range(RECORDS)
    )
    report = await producer.send_many("measurements", records)
    report.raise_for_failures()
    for place, offsets in sorted(report.ranges.items()):
        print(f"  {place}: {offsets.count:,} records, offsets {offsets.first} to {offsets.last}")


async def pipelined(producer: Producer) -> None:
    """Keep a future per record. After ``flush()`` all of them are done."""
    futures = []
    for number in range(RECORDS):
        futures.append(producer.send("measurements", f"{number}", key=f"sensor-{number % 50}"))
        await producer.drain()
    await producer.flush()
    partitions = Counter(future.result().partition for future in futures)
    print(f"  delivered to partitions: {dict(sorted(partitions.items()))}")


async def main() -> None:
    async with Producer(bootstrap_servers=SERVERS, compression_type="zstd") as producer:
        for way in (in_bulk, pipelined):
            print(f"{way.__name__}:")
            began = time.perf_counter()
            await way(producer)
            print(f"  {RECORDS / (time.perf_counter() - began):,.0f} records/s")


loops.run(main())
