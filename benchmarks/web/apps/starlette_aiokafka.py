"""``examples/web_app.py`` with aiokafka."""

import contextlib
import os
from collections.abc import AsyncIterator

from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError, MessageSizeTooLargeError  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with AIOKafkaProducer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        acks="all",
        request_timeout_ms=2_000,
    ) as producer:
        app.state.producer = producer
        yield


async def post_order(request: Request) -> JSONResponse:
    producer: AIOKafkaProducer = request.app.state.producer
    order = await request.body()
    try:
        metadata = await producer.send_and_wait(
            "orders", order, key=request.path_params["customer"].encode()
        )
    except MessageSizeTooLargeError as error:
        return JSONResponse({"error": str(error)}, status_code=413)
    except KafkaError as error:
        return JSONResponse({"error": str(error)}, status_code=503)
    return JSONResponse(
        {"partition": metadata.partition, "offset": metadata.offset}, status_code=201
    )


app = Starlette(
    routes=[Route("/orders/{customer}", post_order, methods=["POST"])], lifespan=lifespan
)
