"""``examples/web_app.py`` with FastAPI and aiokafka."""

from aiokafka.errors import KafkaError, MessageSizeTooLargeError  # type: ignore[import-untyped]
from fastapi import FastAPI, HTTPException, Request

from benchmarks.web.apps.starlette_aiokafka import lifespan

app = FastAPI(lifespan=lifespan)


@app.post("/orders/{customer}", status_code=201)
async def post_order(customer: str, request: Request) -> dict[str, int]:
    order = await request.body()
    try:
        metadata = await request.app.state.producer.send_and_wait(
            "orders", order, key=customer.encode()
        )
    except MessageSizeTooLargeError as error:
        raise HTTPException(413, str(error)) from error
    except KafkaError as error:
        raise HTTPException(503, str(error)) from error
    return {"partition": metadata.partition, "offset": metadata.offset}
