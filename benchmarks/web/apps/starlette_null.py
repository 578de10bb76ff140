"""``examples/web_app.py`` without Kafka: the price of a request alone."""

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def post_order(request: Request) -> JSONResponse:
    order = await request.body()
    key = request.path_params["customer"]
    return JSONResponse({"partition": len(key), "offset": len(order)}, status_code=201)


app = Starlette(routes=[Route("/orders/{customer}", post_order, methods=["POST"])])
