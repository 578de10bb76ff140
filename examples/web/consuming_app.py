"""Store orders from Kafka in a database and serve them over HTTP, with FastAPI:
``python examples/web/consuming_app.py``, or

    uvicorn consuming_app:app --app-dir examples/web --timeout-graceful-shutdown 8

    curl http://127.0.0.1:8000/orders/anna
    curl http://127.0.0.1:8000/health

Each process is a member of the group and reads its share of the orders. The primary key is the
partition and offset of the order, so an order that is read twice is stored once. SQLite stands in
for your database: its calls block, so they run in a thread.
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse

from aioproducer.consumer import Consumer
from aioproducer.reader import ConsumerRecord

TOPIC = os.environ.get("KAFKA_TOPIC", "orders")
DATABASE = os.environ.get("ORDERS_DATABASE", "orders.sqlite")
GRACE = 8  # seconds for the requests in progress

logger = logging.getLogger(__name__)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One consumer for the application, with a task of its own."""
    await asyncio.to_thread(create_table)
    async with Consumer(
        TOPIC,
        group_id="orders-view",
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        client_id="orders-view",
        auto_offset_reset="earliest",
    ) as consumer:
        app.state.consumer = consumer
        app.state.reading = asyncio.create_task(keep_orders(consumer))
        yield
        consumer.finish()
        await asyncio.wait([app.state.reading])
    # By now the offsets are committed, and other processes have taken over the partitions.


async def keep_orders(consumer: Consumer) -> None:
    """Insert orders as they arrive. Asking for the next list marks the last one as processed."""
    try:
        async for records in consumer.lists(max_records=500):
            await asyncio.to_thread(insert, records)
    except Exception:
        logger.exception("orders are no longer read")  # /health reports it: restart the process
        raise


app = FastAPI(lifespan=lifespan)


@app.get("/health")
async def health(request: Request) -> JSONResponse:
    """Answer 503 while orders cannot be read."""
    found = request.app.state.consumer.health()
    is_ready = found.is_ready and not request.app.state.reading.done()
    return JSONResponse(found.as_dict(), 200 if is_ready else 503)


@app.get("/orders/{customer}")
async def orders(customer: str) -> JSONResponse:
    """The orders of a customer that have been read so far."""
    return JSONResponse({"orders": await asyncio.to_thread(select, customer)})


# --- the database -----------------------------------------------------------------------------


def connection() -> sqlite3.Connection:
    return sqlite3.connect(DATABASE, timeout=30)


def create_table() -> None:
    with closing(connection()) as database, database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(
            "CREATE TABLE IF NOT EXISTS orders (topic TEXT, partition INT, offset INT,"
            " customer TEXT, content TEXT, PRIMARY KEY (topic, partition, offset))"
        )


def insert(records: list[ConsumerRecord]) -> None:
    rows = [
        (each.topic, each.partition, each.offset, *map(text, (each.key, each.value)))
        for each in records
    ]
    with closing(connection()) as database, database:
        database.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?, ?)", rows)


def select(customer: str) -> list[str]:
    with closing(connection()) as database:
        rows = database.execute(
            "SELECT content FROM orders WHERE customer = ? ORDER BY partition, offset", (customer,)
        )
        return [content for (content,) in rows]


def text(data: bytes | None) -> str:
    return "" if data is None else data.decode(errors="replace")


if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, timeout_graceful_shutdown=GRACE)
