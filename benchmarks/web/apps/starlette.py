"""Starlette."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from benchmarks.web.clients import Connect


def make_app(connect: Connect) -> Starlette:
    """The application on one client."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with connect() as app.state.send:
            yield

    route = Route("/orders/{customer}", post_order, methods=["POST"])
    return Starlette(routes=[route], lifespan=lifespan)


async def post_order(request: Request) -> JSONResponse:
    partition, offset = await request.app.state.send(
        request.path_params["customer"], await request.body()
    )
    return JSONResponse({"partition": partition, "offset": offset}, 201)
