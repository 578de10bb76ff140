"""A Celery application whose tasks send to Kafka.

    celery -A celery_app worker --pool prefork --concurrency 2  # in this folder

CELERY_BROKER_URL is the address of Celery's own broker. The producer starts with the first task, in
the process that runs the task. So the same code works with the pools `prefork`, `solo` and
`threads`.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Any

from celery import Celery
from celery.signals import worker_process_shutdown, worker_shutdown

from aioproducer import ProducerError
from aioproducer.sync import Producer

app = Celery("orders")
app.config_from_envvar("CELERY_CONFIG_MODULE", silent=True)

producer = Producer(  # opens nothing yet: prefork forks its processes later
    bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
    delivery_timeout_ms=10_000,  # the longest that a task waits
    request_timeout_ms=5_000,
)
_started = False
_lock = Lock()  # the pool `threads` runs tasks at the same time


def start_once() -> None:
    """Start this process's producer unless it is already running."""
    global _started
    with _lock:
        if not _started:
            producer.start()
            _started = True


@worker_process_shutdown.connect  # a `prefork` process ends, without atexit
@worker_shutdown.connect  # `solo` and `threads` end
def close_producer(**_: Any) -> None:
    """Deliver the buffered records."""
    if _started:
        producer.close(timeout=5)


@app.task(acks_late=True, autoretry_for=(ProducerError,), retry_backoff=True, max_retries=5)
def publish(order: str) -> dict[str, int]:
    """Send an order. The task succeeds once the record is in Kafka."""
    start_once()
    record = producer.send("orders", order).result()
    return {"partition": record.partition, "offset": record.offset, "process": os.getpid()}
