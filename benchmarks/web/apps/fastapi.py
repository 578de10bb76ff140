"""FastAPI."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request

from benchmarks.web.clients import Connect


def make_app(connect: Connect) -> FastAPI:
    """The application on one client."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with connect() as app.state.send:
            yield

    app = FastAPI(lifespan=lifespan)
    app.post("/orders/{customer}", status_code=201)(post_order)
    return app


async def post_order(customer: str, request: Request) -> dict[str, int]:
    partition, offset = await request.app.state.send(customer, await request.body())
    return {"partition": partition, "offset": offset}
