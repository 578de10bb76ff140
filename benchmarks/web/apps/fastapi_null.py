"""``examples/web_app.py`` with FastAPI and without Kafka: the price of a request alone."""

from fastapi import FastAPI, Request

app = FastAPI()


@app.post("/orders/{customer}", status_code=201)
async def post_order(customer: str, request: Request) -> dict[str, int]:
    order = await request.body()
    return {"partition": len(customer), "offset": len(order)}
