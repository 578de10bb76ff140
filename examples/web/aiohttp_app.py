"""Orders over HTTP into Kafka, with aiohttp: ``python examples/web/aiohttp_app.py``, or

    gunicorn aiohttp_app:make_app --chdir examples/web \\
        --worker-class aiohttp.GunicornWebWorker --graceful-timeout 10

    curl -d '{"article": 7}' http://127.0.0.1:8000/orders/anna
    curl http://127.0.0.1:8000/health

201: the order is in Kafka, at this partition and offset. 503 with Retry-After: the order is not in
Kafka; send it again. 503 without Retry-After: nobody knows, and sending it again may duplicate it.
"""

import asyncio
import os
from collections.abc import AsyncIterator

from aiohttp import web

from aioproducer import Producer, ProducerError, RecordTooLargeError

TOPIC = os.environ.get("KAFKA_TOPIC", "orders")
TIMEOUT_MS = int(os.environ.get("ORDER_TIMEOUT_MS", "5000"))
GRACE = 8  # seconds: longer than a request takes, and with CLOSING less than the platform's
CLOSING = 2
PRODUCER = web.AppKey("producer", Producer)


async def lifespan(app: web.Application) -> AsyncIterator[None]:
    """One producer for the application. Start only if it is allowed to write."""
    async with Producer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        client_id="orders-app",
        delivery_timeout_ms=TIMEOUT_MS,  # the longest that a request waits for its record
        max_block_ms=TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS // 3,  # leaves time for another attempt
    ) as producer:
        await producer.check(timeout=10, topics=[TOPIC])
        app[PRODUCER] = producer
        yield
        await producer.close(CLOSING)


async def health(request: web.Request) -> web.Response:
    """503 with the reason while no order can be written."""
    found = request.app[PRODUCER].health()
    return web.json_response(found.as_dict(), status=200 if found.is_ready else 503)


async def post_order(request: web.Request) -> web.Response:
    """Answer when the order is in Kafka; the orders of a customer keep their sequence."""
    producer = request.app[PRODUCER]
    order = await request.read()
    try:
        async with asyncio.timeout(0):
            await producer.drain()  # TimeoutError if the memory is full
        metadata = await producer.send(TOPIC, order, key=request.match_info["customer"])
    except RecordTooLargeError as error:
        return web.json_response({"error": str(error)}, status=413)
    except ProducerError as error:
        return unavailable(str(error), may_have_been_written=error.may_have_been_written)
    except TimeoutError:
        return unavailable("too many orders wait for Kafka", may_have_been_written=False)
    place = {"partition": metadata.partition, "offset": metadata.offset}
    return web.json_response(place, status=201)


def unavailable(error: str, *, may_have_been_written: bool) -> web.Response:
    """Only an order that is not in Kafka is to be sent again."""
    return web.json_response(
        {"error": error, "may_have_been_written": may_have_been_written},
        status=503,
        headers={} if may_have_been_written else {"Retry-After": "1"},
    )


async def make_app() -> web.Application:
    """An application; a server's worker calls this on its event loop."""
    app = web.Application()
    app.cleanup_ctx.append(lifespan)
    app.add_routes([web.get("/health", health), web.post("/orders/{customer}", post_order)])
    return app


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8000"))
    web.run_app(make_app(), host="127.0.0.1", port=port, shutdown_timeout=GRACE)
