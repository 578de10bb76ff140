"""The examples run as they stand, on a real Kafka."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from aioproducer.testing.processes import ProcessSupervisor
from benchmarks.spark import sessions
from tests.kafka.transactional import nothing_is_open, read, topics
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EXAMPLES = sessions.ROOT / "examples"
FLIGHTS = 336_776
PATIENCE = 300.0


@pytest.mark.parametrize("protocol", [2], indirect=True)
async def test_all_flights_arrive_whole(transactional: KafkaCluster, tmp_path: Path) -> None:
    kafka, log = transactional, tmp_path / "log"
    await topics(kafka, "flights", partitions=6)
    with ProcessSupervisor() as supervisor, log.open("wb") as output:
        example = supervisor.start(
            [sys.executable, EXAMPLES / "spark_batch.py", kafka.bootstrap_servers],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=sessions.environment(),
        )
        assert example.wait(PATIENCE) == 0, log.read_text()[-5000:]
    assert f"{FLIGHTS:,} flights are in Kafka:\n" in log.read_text()
    await until(lambda: nothing_is_open(kafka, "flights"), "all is committed")
    logs = read(kafka, ("flights",), "read_committed")
    flights = Counter(value for log in logs.values() for value in log)
    assert sum(flights.values()) == FLIGHTS
    assert set(flights.values()) == {1}
    flight = json.loads(next(iter(flights)))
    assert flight["year"] == 2013
    assert flight["origin"] in {"EWR", "JFK", "LGA"}


@pytest.mark.parametrize("protocol", [2], indirect=True)
async def test_a_stream_that_is_killed_and_started_again_writes_nothing_twice(
    transactional: KafkaCluster, tmp_path: Path
) -> None:
    kafka = transactional
    await topics(kafka, "numbers", partitions=4)
    for start in range(2):
        log = tmp_path / f"log-{start}"
        with ProcessSupervisor() as supervisor, log.open("wb") as output:
            driver = supervisor.start(
                [
                    *(sys.executable, EXAMPLES / "spark_streaming.py"),
                    *(tmp_path / "checkpoint", kafka.bootstrap_servers),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=sessions.environment(),
            )
            deadline = time.monotonic() + PATIENCE
            while log.read_text().count("records written") < 3:
                assert driver.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            for process in psutil.Process(driver.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):  # it went with the JVM
                    process.send_signal(signal.SIGKILL)
    # The last killed one left a transaction open.
    seen = read(kafka, ("numbers",), "read_committed")
    numbers = Counter(int(value) for log_ in seen.values() for value in log_)
    assert set(numbers.values()) == {1}
    assert sorted(numbers) == list(range(len(numbers)))
