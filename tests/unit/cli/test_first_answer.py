"""Commands without a broker: each says so soon, with the address and the next step."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.cli.app import run
from aioproducer.cli.early_ends import answer_seconds, first_answer
from aioproducer.config import ProducerConfig
from aioproducer.engine.client.cluster_client import ClusterClient
from aioproducer.errors import BootstrapError

CONFIG = ProducerConfig(bootstrap_servers="127.0.0.1:1")
COMMANDS = (
    "topics list",
    "topics create t",
    "groups list",
    "groups describe g",
    "cluster",
    "tail t",
    "tail t -G g",
    "perf t --num-records 1",
    "perf t --num-records 1 --transactional-id x",
)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_broker_says_so(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [*command.split(), "-b", "127.0.0.1:1", "-X", "max.block.ms=400"]
    assert run(words) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert re.fullmatch(
        r"aioproducer: no broker answered within 0\.4 s\. bootstrap server 127\.0\.0\.1:1: .*"
        r"Check the address \(-b\).*aioproducer mock.*-X max\.block\.ms=60000 waits longer",
        error,
    )


def test_lines_are_not_read_before_a_broker_has_answered(
    silent: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    words = ["produce", "t", "--file", str(lines), "-b", silent, "-X", "max.block.ms=400"]
    assert run(words) == 1
    error = capfd.readouterr().err.splitlines()[-1]
    assert error.startswith(
        f"aioproducer: no broker answered within 0.4 s. bootstrap server {silent}: no response yet"
    )


def test_the_first_answer_takes_ten_seconds_unless_the_user_says_otherwise() -> None:
    assert answer_seconds(CONFIG) == 10
    assert answer_seconds(CONFIG.replace(max_block_ms=60_000)) == 60


async def test_a_command_goes_on_if_a_broker_has_answered_once() -> None:
    client = ClusterClient(CONFIG, "test", "Admin")
    with pytest.raises(BootstrapError):
        async with first_answer(client, 0.01):
            await asyncio.sleep(60)
    client.answered = True
    async with first_answer(client, 0.01):
        await asyncio.sleep(0.1)
    await client.close()


async def test_a_timeout_of_the_command_itself_is_left_alone() -> None:
    client = ClusterClient(CONFIG, "test", "Admin")
    with pytest.raises(TimeoutError, match="of its own"):
        async with first_answer(client, 60):
            raise TimeoutError("of its own")
    await client.close()
