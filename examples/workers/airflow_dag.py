"""An Airflow DAG whose task sends to Kafka.

Airflow imports this file often and in several processes. It runs every task in a new process, which
exits without calling atexit handlers. So the task creates, uses and closes its own producer.
"""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import dag, task

from aioproducer.sync import Producer


@task(retries=2)
def publish(count: int) -> int:
    """Send orders. The task succeeds once all of them are in Kafka."""
    servers = os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
    with Producer(bootstrap_servers=servers, client_id="airflow") as producer:
        report = producer.send_many("orders", [b"order %d" % n for n in range(count)])
    report.raise_for_failures()
    return report.delivered


@dag(schedule=None, start_date=datetime(2026, 1, 1), catchup=False)
def orders_to_kafka() -> None:
    """One task."""
    publish(100)


orders_to_kafka()
