"""Publish a DataFrame to Kafka from a web application that shows the progress:
``python examples/spark_async_driver.py [host:port of Kafka]``, then

    curl -N -X POST 'http://127.0.0.1:8000/publish/squares?rows=1000000'

Needs ``pip install '.[spark]' fastapi uvicorn`` and Java 17. The application keeps serving other
requests. If the client disconnects, the Spark job is cancelled.
"""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from pyspark.sql import DataFrame, SparkSession

from aioproducer import Producer, ProducerError
from aioproducer.spark import PublishProgress, publish_dataframe


@contextlib.asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One producer for the application."""
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    async with Producer(bootstrap_servers=servers) as producer:
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


def squares(spark: SparkSession, rows: int) -> DataFrame:
    """The data to publish. Partitions of a moderate size make the progress smooth."""
    return spark.range(0, rows, 1, max(1, rows // 250_000)).selectExpr(
        "cast(id as string) as key", "to_json(struct(id, id * id as square)) as value"
    )


@app.post("/publish/{topic}")
async def publish(topic: str, rows: int, request: Request) -> StreamingResponse:
    """Answer with server-sent events: the progress, and finally the number of rows written."""
    df = await asyncio.to_thread(squares, request.app.state.spark, rows)
    events = publishing(df, request.app.state.producer, topic)
    return StreamingResponse(events, media_type="text/event-stream")


@app.get("/health")
async def health() -> str:
    """Answer even while a job is running."""
    return "ok"


async def publishing(df: DataFrame, producer: Producer, topic: str) -> AsyncIterator[str]:
    """The events of one request. The generator is closed when the client disconnects."""
    seen: asyncio.Queue[PublishProgress | None] = asyncio.Queue()
    task = asyncio.create_task(publish_dataframe(df, producer, topic, seen.put_nowait))
    task.add_done_callback(lambda _: seen.put_nowait(None))
    try:
        while (progress := await seen.get()) is not None:
            yield event(
                "progress", rows=progress.rows, rows_per_second=round(progress.rows_per_second)
            )
        report = await task
        yield event("done", rows=report.records, partitions=len(report.ranges))
    except ProducerError as error:
        yield event("failed", error=str(error))
    finally:
        task.cancel()


def event(name: str, **data: object) -> str:
    """One server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["BOOTSTRAP_SERVERS"] = sys.argv[1]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Before uvicorn, which handles Ctrl-C from here on.
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    app.state.spark = spark
    try:
        uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
    finally:
        spark.stop()
