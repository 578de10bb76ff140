"""Orders over HTTP into Kafka, with FastAPI: ``python examples/web/fastapi_app.py``, or

    uvicorn fastapi_app:app --app-dir examples/web --timeout-graceful-shutdown 8

    curl -d '{"article": 7}' http://127.0.0.1:8000/orders/anna
    curl http://127.0.0.1:8000/health

201: the order is in Kafka, at this partition and offset. 503 with Retry-After: the order is not in
Kafka; send it again. 503 without Retry-After: nobody knows, and sending it again may duplicate it.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from aioproducer import Producer, ProducerError, RecordTooLargeError

TOPIC = os.environ.get("KAFKA_TOPIC", "orders")
TIMEOUT_MS = int(os.environ.get("ORDER_TIMEOUT_MS", "5000"))
GRACE = 8  # seconds: longer than a request takes, and with CLOSING less than the platform's
CLOSING = 2


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One producer for the application. Start only if it is allowed to write."""
    async with Producer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        client_id="orders-app",
        delivery_timeout_ms=TIMEOUT_MS,  # the longest that a request waits for its record
        max_block_ms=TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS // 3,  # leaves time for another attempt
    ) as producer:
        await producer.check(timeout=10, topics=[TOPIC])
        app.state.producer = producer
        yield
        await producer.close(CLOSING)


app = FastAPI(lifespan=lifespan)


@app.get("/health")
async def health(request: Request) -> JSONResponse:
    """503 with the reason while no order can be written."""
    found = request.app.state.producer.health()
    return JSONResponse(found.as_dict(), 200 if found.is_ready else 503)


@app.post("/orders/{customer}")
async def post_order(customer: str, request: Request) -> JSONResponse:
    """Answer when the order is in Kafka; the orders of a customer keep their sequence."""
    producer: Producer = request.app.state.producer
    order = await request.body()
    try:
        async with asyncio.timeout(0):
            await producer.drain()  # TimeoutError if the memory is full
        metadata = await producer.send(TOPIC, order, key=customer)
    except RecordTooLargeError as error:
        return JSONResponse({"error": str(error)}, 413)
    except ProducerError as error:
        return unavailable(str(error), may_have_been_written=error.may_have_been_written)
    except TimeoutError:
        return unavailable("too many orders wait for Kafka", may_have_been_written=False)
    return JSONResponse({"partition": metadata.partition, "offset": metadata.offset}, 201)


def unavailable(error: str, *, may_have_been_written: bool) -> JSONResponse:
    """Only an order that is not in Kafka is to be sent again."""
    return JSONResponse(
        {"error": error, "may_have_been_written": may_have_been_written},
        503,
        {} if may_have_been_written else {"Retry-After": "1"},
    )


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, timeout_graceful_shutdown=GRACE)
