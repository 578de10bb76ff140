"""A web application on a secured cluster: it starts only if it may write, and reports its health.

    export KAFKA_SERVERS=kafka-1.example:9093 KAFKA_AUTHORITY=/etc/kafka/authority.pem
    export KAFKA_USERNAME=orders-app KAFKA_PASSWORD=...
    python examples/secured.py

    curl http://127.0.0.1:8000/health
    curl -d '{"article": 7}' http://127.0.0.1:8000/orders/anna

A wrong password stops it at startup, with the broker's message. The password is never logged.
Needs ``pip install starlette uvicorn``.
"""

import contextlib
import os
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from aioproducer import Producer, ProducerError

TOPIC = os.environ.get("KAFKA_TOPIC", "orders")


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Refuse to start with a wrong login or a wrong topic."""
    async with Producer(
        bootstrap_servers="${env:KAFKA_SERVERS}",
        security_protocol="SASL_SSL",
        ssl_truststore_location="${env:KAFKA_AUTHORITY}",  # omit: the system's CAs
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username="${env:KAFKA_USERNAME}",
        sasl_password="${env:KAFKA_PASSWORD}",
        delivery_timeout_ms=5_000,
        request_timeout_ms=2_000,
        max_block_ms=5_000,
    ) as producer:
        await producer.check(timeout=10, topics=[TOPIC])
        app.state.producer = producer
        yield


async def health(request: Request) -> JSONResponse:
    """Ask the cluster on every call. Probe every few seconds, not more often."""
    producer: Producer = request.app.state.producer
    try:
        found = await producer.check(timeout=2, topics=[TOPIC])
    except ProducerError as error:
        return JSONResponse({"error": str(error)}, status_code=503)
    return JSONResponse({"cluster": found.cluster_id, "brokers": len(found.brokers)})


async def post_order(request: Request) -> JSONResponse:
    """Answer once the order is in Kafka."""
    producer: Producer = request.app.state.producer
    try:
        metadata = await producer.send(
            TOPIC, await request.body(), key=request.path_params["customer"]
        )
    except ProducerError as error:
        return JSONResponse({"error": str(error)}, status_code=503)
    return JSONResponse({"offset": metadata.offset}, status_code=201)


app = Starlette(
    routes=[
        Route("/health", health),
        Route("/orders/{customer}", post_order, methods=["POST"]),
    ],
    lifespan=lifespan,
)

if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
