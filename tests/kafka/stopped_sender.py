"""A process that sends without a pause until it is told to end; the test stops it meanwhile.

``python -m tests.kafka.stopped_sender LOOP SERVERS TOPIC OPTIONS``: it writes a line when the first
records are delivered, and a JSON document of what it sent after a line of input.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from typing import Any

import uvloop

from aioproducer import Producer, ProducerError

FIRST = 200


async def send_all_the_time(servers: str, topic: str, options: dict[str, Any]) -> dict[str, Any]:
    futures: list[asyncio.Future[Any]] = []
    async with Producer(bootstrap_servers=servers, **options) as producer:
        await producer.check(topics=[topic])  # the timeouts are too short for a cold start
        end = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        while not end.done():
            futures += [producer.send(topic, b"%d" % (len(futures) + n)) for n in range(20)]
            await producer.drain()
            await asyncio.sleep(0.001)
            if len(futures) == FIRST:
                try:
                    await asyncio.gather(*futures)
                except ProducerError:
                    traceback.print_exc()
                    os._exit(1)  # the thread that reads the input would keep the process
                print("sending", flush=True)
        last = await producer.send(topic, b"last")
        await producer.flush()
    errors = [str(future.exception()) for future in futures if future.exception() is not None]
    return {"sent": len(futures), "errors": errors, "last": last.offset}


def main() -> None:
    loop, servers, topic, options = sys.argv[1:]
    factory = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}[loop]
    with asyncio.Runner(loop_factory=factory) as runner:
        print(json.dumps(runner.run(send_all_the_time(servers, topic, json.loads(options)))))


if __name__ == "__main__":
    main()
