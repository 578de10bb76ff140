"""What a login needs of this machine and is not there: told at once, as a wrong option is."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.errors import ConfigError
from aioproducer.reader import Reader
from aioproducer.sync import Producer as SyncProducer

PATIENT = 60_000
NOBODY: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1"}
"""Nobody is asked: the file comes before the connection."""


def reader(**options: Any) -> Reader:
    return Reader("orders", **options)


def consumer(**options: Any) -> Consumer:
    return Consumer("orders", group_id="billing", **options)


KINDS = (Producer, Admin, reader, consumer)


def producer(file: Path, **options: Any) -> Producer:
    return Producer(
        **NOBODY,
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(file),
        max_block_ms=PATIENT,
        **options,
    )


@pytest.mark.timeout(30)
@pytest.mark.parametrize("option", ["ssl_truststore_location", "ssl_keystore_location"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_a_file_that_is_missing_is_an_error_of_the_start(kind: Any, option: str) -> None:
    options = {**NOBODY, "security_protocol": "SSL", option: "/missing/some.pem"}
    client = kind(**options)
    with pytest.raises(ConfigError, match=f"^{option}='/missing/some.pem' can't be read: No such"):
        await client.start()
    await client.close()


def test_a_blocking_producer_says_it_at_its_start(tmp_path: Path) -> None:
    options = {**NOBODY, "ssl_truststore_location": str(tmp_path / "missing.pem")}
    with (
        pytest.raises(ConfigError, match=r"ssl_truststore_location='.*missing\.pem'"),
        SyncProducer(**options, security_protocol="SSL"),
    ):
        pytest.fail("it has started")


@pytest.mark.timeout(30)
async def test_a_file_that_hangs_does_not_hold_the_start_up(tmp_path: Path) -> None:
    """Nobody writes into the pipe, as on a network drive that hangs."""
    pipe = tmp_path / "pipe.pem"
    os.mkfifo(pipe)
    options = {**NOBODY, "socket_connection_setup_timeout_ms": 50}
    client = Admin(**options, security_protocol="SSL", ssl_truststore_location=str(pipe))
    await client.start()
    await client.close()
    with open(pipe, "wb"):
        """The thread that reads ends."""


@pytest.mark.timeout(30)
async def test_a_file_that_is_missing_fails_the_start_of_transactions(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(ConfigError, match=r"ssl_truststore_location='.*missing.pem'"):
        await producer(missing, transactional_id="mine").start()


def test_an_error_of_an_option_can_be_shown_with_the_variables_of_its_frames() -> None:
    with pytest.raises(ConfigError) as caught:
        Producer(bootstrap_servers="127.0.0.1:1", acks="some")  # type: ignore[arg-type]
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "<Producer that is being made>" in "".join(shown.format())
