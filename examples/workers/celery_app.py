"""A Celery application whose tasks send to Kafka.

    celery --workdir examples/workers -A celery_app worker --pool prefork --concurrency 2

CELERY_BROKER_URL names Celery's own broker. The producer starts with the first task, in the process
that runs it. So the pools `prefork`, `solo` and `threads` need no difference.
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

producer = Producer(  # it opens nothing yet: prefork forks the processes of tasks afterwards
    bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
    delivery_timeout_ms=10_000,  # a task waits no longer
    request_timeout_ms=5_000,
)
_started = False
_lock = Lock()  # tasks of the pool `threads` run at the same time


def start_once() -> None:
    """Start this process's producer, unless it has started."""
    global _started
    with _lock:
        if not _started:
            producer.start()
            _started = True


@worker_process_shutdown.connect  # the end of a process of `prefork`, which skips atexit
@worker_shutdown.connect  # the end of `solo` and `threads`
def close_producer(**_: Any) -> None:
    """Deliver what is buffered."""
    if _started:
        producer.close(timeout=5)


@app.task(acks_late=True, autoretry_for=(ProducerError,), retry_backoff=True, max_retries=5)
def publish(order: str) -> dict[str, int]:
    """Send an order; the task succeeds once the record is in Kafka."""
    start_once()
    record = producer.send("orders", order).result()
    return {"partition": record.partition, "offset": record.offset, "process": os.getpid()}
