"""aiohttp."""

from collections.abc import AsyncIterator

from aiohttp import web

from benchmarks.web.clients import Connect, Send

SEND = web.AppKey[Send]("send")


def make_app(connect: Connect) -> web.Application:
    """The application on one client."""

    async def lifespan(app: web.Application) -> AsyncIterator[None]:
        async with connect() as app[SEND]:
            yield

    app = web.Application()
    app.cleanup_ctx.append(lifespan)
    app.add_routes([web.post("/orders/{customer}", post_order)])
    return app


async def post_order(request: web.Request) -> web.Response:
    partition, offset = await request.app[SEND](
        request.match_info["customer"], await request.read()
    )
    return web.json_response({"partition": partition, "offset": offset}, status=201)
