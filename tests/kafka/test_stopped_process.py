"""A process is stopped (SIGSTOP) for longer than its timeouts, and goes on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from aioproducer.testing.kafka_cluster import KafkaCluster
from tests.support.read_back import read_topic

pytestmark = pytest.mark.kafka

STOPPED = 4.0
"""Seconds; the timeouts are shorter."""
SHORT: dict[str, Any] = {
    "request_timeout_ms": 1_500,
    "delivery_timeout_ms": 2_000,
    "linger_ms": 0,
}
ACKS_1: dict[str, Any] = {"acks": 1, "enable_idempotence": False}


def stop_and_go_on(loop: str, servers: str, topic: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run the sender, stop it amid its work, and return what it says."""
    command = [sys.executable, "-m", "tests.kafka.stopped_sender", loop, servers, topic]
    with subprocess.Popen(
        [*command, json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "sending\n"
            process.send_signal(signal.SIGSTOP)
            os.waitpid(process.pid, os.WUNTRACED)
            time.sleep(STOPPED)
            process.send_signal(signal.SIGCONT)
            out, _ = process.communicate("end\n", timeout=60)
        finally:
            process.kill()
    told: dict[str, Any] = json.loads(out)
    return told


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("options", [ACKS_1, {}], ids=["acks=1", "acks=all"])
async def test_nothing_fails_and_nothing_is_twice(
    kafka: KafkaCluster, loop: str, options: dict[str, Any]
) -> None:
    topic = f"stopped-{loop}-{options.get('acks', 'all')}"
    await kafka.create_topic(topic, partitions=3, replication_factor=1)
    told = await asyncio.to_thread(
        stop_and_go_on, loop, kafka.bootstrap_servers, topic, SHORT | options
    )
    assert told["errors"] == []
    found = [record.value for record in await asyncio.to_thread(read_topic, kafka, topic)]
    expected = [*(b"%d" % number for number in range(told["sent"])), b"last"]
    assert sorted(value or b"" for value in found) == sorted(expected)
