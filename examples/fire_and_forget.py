"""Send events without awaiting their futures: ``python examples/fire_and_forget.py [host:port]``.

``send()`` buffers an event and returns. ``drain()`` returns at once while the buffer has room, and
waits otherwise: a slow broker slows this loop down instead of filling the memory.
"""

import json
import os
import sys

from aioproducer import Producer, loops

SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)
EVENTS = 100_000


async def main() -> None:
    async with Producer(bootstrap_servers=SERVERS, compression_type="lz4") as producer:
        for number in range(EVENTS):
            event = {"visitor": number % 1000, "page": f"/products/{number % 77}"}
            producer.send("page-views", json.dumps(event))  # the future is ignored
            await producer.drain()
        await producer.flush()  # `async with` flushes too, but the metrics are read here
        metrics = producer.metrics()["producer-metrics"]
    # Failures are logged, one line per failed batch, and counted:
    sent, failed = metrics["record-send-total"], metrics["record-error-total"]
    print(f"{sent:,.0f} events sent, {failed:,.0f} failed")


loops.run(main())
