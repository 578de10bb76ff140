"""What users start: the example of a secured application, and ``aioproducer check``."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from subprocess import Popen
from typing import TypeAlias

import httpx
import pytest

from aioproducer.testing.ports import free_ports
from tests.kafka.secured.secured_kafka import SecuredKafka

pytestmark = pytest.mark.kafka

EXAMPLE = Path(__file__).parents[3] / "examples" / "secured.py"
Place: TypeAlias = dict[str, str]


@pytest.fixture
async def orders(world: SecuredKafka) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    await world.cluster.create_topic(name, 2)
    return name


@pytest.fixture
def place(world: SecuredKafka, orders: str) -> Place:
    """The variables of the example."""
    return {
        "KAFKA_SERVERS": world.cluster.bootstrap_servers_of("LOGIN"),
        "KAFKA_AUTHORITY": str(world.trusted),
        "KAFKA_TOPIC": orders,
    }


def secured_application(place: Place, port: int, password: str) -> Popen[str]:
    """The example, as a process of its own."""
    login = {"KAFKA_USERNAME": "bob", "KAFKA_PASSWORD": password}
    return Popen(
        [sys.executable, EXAMPLE],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PORT": str(port), **place, **login},
    )


def test_the_example_tells_its_health(place: Place) -> None:
    [port] = free_ports(1)
    with secured_application(place, port, "bob-secret") as process:
        assert process.stderr is not None
        try:
            while "Uvicorn running" not in (line := process.stderr.readline()):
                assert line, "uvicorn ended"
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
                assert client.get("/health").json()["brokers"] == 1
                posted = client.post("/orders/anna", content=b"1", timeout=30)
                assert (posted.status_code, posted.json()) == (201, {"offset": 0})
        finally:
            process.terminate()
        assert "bob-secret" not in process.stderr.read()


def test_the_example_does_not_start_with_a_wrong_password(place: Place) -> None:
    with secured_application(place, 0, "guessed-it") as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "SCRAM-SHA-512 login refused: SASL_AUTHENTICATION_FAILED" in told
    assert "Application startup failed" in told
    assert "guessed-it" not in told


@pytest.mark.parametrize(("password", "code"), [("bob-secret", 0), ("guessed-it", 1)])
def test_the_command_line_says_who_may_write(
    world: SecuredKafka, orders: str, password: str, code: int
) -> None:
    """A wrong password is the broker's refusal, and is nowhere to be read."""
    address = world.cluster.bootstrap_servers_of("CLEAR")
    command = [sys.executable, "-m", "aioproducer", "check", orders, "-b", address]
    for text in (
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=SCRAM-SHA-512",
        "sasl.username=bob",
        "sasl.password=${env:PASSWORD}",
    ):
        command += ["-X", text]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PASSWORD": password},
    )
    assert done.returncode == code, done.stderr
    assert password not in done.stdout + done.stderr
    if code:
        assert "SCRAM-SHA-512 login refused: SASL_AUTHENTICATION_FAILED" in done.stderr
    else:
        assert f"topic        {orders}: 2 partitions, you may write\n" in done.stdout
