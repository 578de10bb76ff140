"""A web application for several processes: its own metrics, and those of its producers."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from aioproducer import Producer
from aioproducer.observability.prometheus import ProducerCollector

registry = CollectorRegistry()
MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
collector = ProducerCollector(registry=registry)
requests = Counter("orders_taken", "Orders taken")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Producer(bootstrap_servers=os.environ["BROKERS"], client_id="web") as producer:
        collector.add(producer)
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders")
async def order(request: Request) -> int:
    """Send an order; return the process that did."""
    await app.state.producer.send("orders", await request.body())
    requests.inc()
    return os.getpid()


@app.get("/metrics")
def metrics() -> Response:
    """Not async: it runs in a thread, and no event loop waits for it."""
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")
