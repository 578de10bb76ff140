"""An ASGI application with one producer per worker, managed by the lifespan.

    gunicorn -k asgi -w 2 asgi_app:app  # in this folder
    gunicorn -k uvicorn_worker.UvicornWorker -w 2 asgi_app:app
    uvicorn --workers 2 asgi_app:app

The lifespan runs in the worker, after the fork and on the worker's event loop. So --preload makes
no difference.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from aioproducer import Producer, ProducerError


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    async with Producer(
        bootstrap_servers=servers,
        delivery_timeout_ms=10_000,  # the longest that a request waits
        request_timeout_ms=5_000,
    ) as producer:
        app.state.producer = producer
        yield


async def order(request: Request) -> JSONResponse:
    """Answer once the record is in Kafka or has failed."""
    body = await request.body()
    try:
        record = await request.app.state.producer.send("orders", body)
    except ProducerError as error:
        return JSONResponse({"error": str(error)}, status_code=503)
    place = {"partition": record.partition, "offset": record.offset, "worker": os.getpid()}
    return JSONResponse(place, status_code=201)


app = Starlette(routes=[Route("/", order, methods=["POST"])], lifespan=lifespan)
