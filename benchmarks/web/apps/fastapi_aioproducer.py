"""``examples/web_app.py`` with FastAPI, as the documentation shows it."""

from fastapi import FastAPI, HTTPException, Request

from aioproducer import ProducerError, RecordTooLargeError
from examples.web_app import lifespan

app = FastAPI(lifespan=lifespan)


@app.post("/orders/{customer}", status_code=201)
async def post_order(customer: str, request: Request) -> dict[str, int]:
    order = await request.body()
    try:
        metadata = await request.app.state.producer.send("orders", order, key=customer)
    except RecordTooLargeError as error:
        raise HTTPException(413, str(error)) from error
    except ProducerError as error:
        raise HTTPException(503, str(error)) from error
    return {"partition": metadata.partition, "offset": metadata.offset}
