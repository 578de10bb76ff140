"""The gunicorn configuration for wsgi_app.py: a producer lives as long as its worker."""

from __future__ import annotations

from typing import Any

workers = 2
threads = 4  # a producer serves all threads of its worker
graceful_timeout = 30  # seconds from SIGTERM to SIGKILL


def post_worker_init(worker: Any) -> None:
    """Run in the worker, after the fork."""
    from wsgi_app import producer

    producer.start()


def worker_exit(server: Any, worker: Any) -> None:
    """Run in the worker when it exits: SIGTERM, max_requests, a reload."""
    from wsgi_app import producer

    producer.close(timeout=20)  # shorter than graceful_timeout
