"""Read a topic to its end and then follow it: ``python examples/read.py TOPIC [host:port]``.

Press Ctrl-C to stop. Arrow columns need ``pip install '.[arrow]'``.
"""

import asyncio
import os
import sys
from contextlib import suppress

from aioproducer import TopicPartition
from aioproducer.reader import Reader

if len(sys.argv) < 2:
    raise SystemExit("usage: python examples/read.py TOPIC [host:port]")
TOPIC = sys.argv[1]
SERVERS = (
    sys.argv[2] if len(sys.argv) > 2 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)


async def read_to_the_end() -> dict[TopicPartition, int]:
    """Read record by record. Return the positions where another reader can continue."""
    count = 0
    async with Reader(
        TOPIC, bootstrap_servers=SERVERS, end="end", isolation_level="read_committed"
    ) as reader:
        async for record in reader:
            count += 1
            print(f"{record.topic_partition} {record.offset}: {record.key!r} {record.value!r}")
        print(f"{count:,} records up to the end")
        return reader.positions


async def sum_up() -> None:
    """Read the last thousand records of each partition as Arrow columns."""
    rows = size = 0
    async with Reader(TOPIC, bootstrap_servers=SERVERS, start=-1_000, end="end") as reader:
        async for batch in reader.arrow_batches():
            rows += batch.num_rows
            size += batch.nbytes
    print(f"{rows:,} rows, {size:,} bytes")


async def follow(positions: dict[TopicPartition, int]) -> None:
    """Wait for new records and read them as they arrive."""
    async with Reader(positions, bootstrap_servers=SERVERS) as reader:
        print("waiting for new records", flush=True)
        async for record in reader:
            print(f"new at {record.offset}: {record.value!r}", flush=True)


async def main() -> None:
    positions = await read_to_the_end()
    await sum_up()
    await follow(positions)


with suppress(KeyboardInterrupt):
    asyncio.run(main())
