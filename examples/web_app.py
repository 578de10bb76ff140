"""One awaited send per web request: ``python examples/web_app.py [host:port of Kafka]``, then

    curl -d '{"article": 7}' http://127.0.0.1:8000/orders/anna

A thousand requests at a time share the producer's batches; none of them waits for a timer.
"""

import contextlib
import os
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from aioproducer import Producer, ProducerError, RecordTooLargeError


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """One producer for the application. Leaving delivers what is still there."""
    async with Producer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        delivery_timeout_ms=5_000,  # no client waits two minutes for a response
        request_timeout_ms=2_000,
        max_block_ms=5_000,
    ) as producer:
        app.state.producer = producer
        yield


async def post_order(request: Request) -> JSONResponse:
    """Answers when the order is in Kafka; the same customer's orders keep their sequence."""
    producer: Producer = request.app.state.producer
    order = await request.body()
    try:
        metadata = await producer.send("orders", order, key=request.path_params["customer"])
    except RecordTooLargeError as error:
        return JSONResponse({"error": str(error)}, status_code=413)
    except ProducerError as error:
        return JSONResponse({"error": str(error)}, status_code=503)
    return JSONResponse(
        {"partition": metadata.partition, "offset": metadata.offset}, status_code=201
    )


app = Starlette(
    routes=[Route("/orders/{customer}", post_order, methods=["POST"])], lifespan=lifespan
)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["BOOTSTRAP_SERVERS"] = sys.argv[1]
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
