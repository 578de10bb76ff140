"""Send one record and print where it was written: ``python examples/quickstart.py [host:port]``."""

import asyncio
import os
import sys

from aioproducer import Producer

SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)


async def main() -> None:
    async with Producer(bootstrap_servers=SERVERS) as producer:
        metadata = await producer.send("greetings", "Hello, Kafka!", key="world")
        print(f"{metadata.topic}-{metadata.partition} at offset {metadata.offset}")


asyncio.run(main())
