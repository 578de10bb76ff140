"""Litestar."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litestar import Litestar, Request, post
from litestar.datastructures import State
from litestar.params import FromPath

from benchmarks.web.clients import Connect


def make_app(connect: Connect) -> Litestar:
    """The application on one client."""

    @asynccontextmanager
    async def lifespan(app: Litestar) -> AsyncIterator[None]:
        async with connect() as app.state.send:
            yield

    return Litestar([post_order], lifespan=[lifespan], logging_config=None)


@post("/orders/{customer:str}")
async def post_order(
    customer: FromPath[str], request: Request[Any, Any, State], state: State
) -> dict[str, int]:
    partition, offset = await state.send(customer, await request.body())
    return {"partition": partition, "offset": offset}
