"""A WSGI application that sends each request's body to Kafka.

    gunicorn --preload -c gunicorn_conf.py wsgi_app:app  # in this folder

With --preload gunicorn imports this module once and forks the workers afterwards. So the producer
is created here, where it opens nothing yet, and gunicorn_conf.py starts and closes it in each
worker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from aioproducer import ProducerError
from aioproducer.sync import Producer

producer = Producer(
    bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
    delivery_timeout_ms=10_000,  # the longest that a request waits
    request_timeout_ms=5_000,
)


def app(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Answer once the record is in Kafka or has failed."""
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    answer: dict[str, object]
    try:
        record = producer.send("orders", body).result()
    except ProducerError as error:
        status, answer = "503 Service Unavailable", {"error": str(error)}
    else:
        status = "201 Created"
        answer = {"partition": record.partition, "offset": record.offset, "worker": os.getpid()}
    start_response(status, [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
