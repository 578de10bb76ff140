"""What a login needs of this machine and is not there: told at once, as a wrong option is."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from aioproducer import Producer
from aioproducer.errors import ConfigError

PATIENT = 60_000


def producer(file: Path, **options: Any) -> Producer:
    """Nobody is asked: the file comes before the connection."""
    return Producer(
        bootstrap_servers="127.0.0.1:1",
        security_protocol="SSL",
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(file),
        max_block_ms=PATIENT,
        **options,
    )


@pytest.mark.timeout(30)
async def test_a_file_that_is_missing_fails_records_and_checks_at_once(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    async with producer(missing) as sending:
        for waiting in (sending.send("orders", b"value"), sending.check(topics=["orders"])):
            with pytest.raises(ConfigError, match=r"ssl_truststore_location='.*missing.pem'"):
                await waiting


@pytest.mark.timeout(30)
async def test_a_file_that_is_missing_fails_the_start_of_transactions(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    with pytest.raises(ConfigError, match=r"ssl_truststore_location='.*missing.pem'"):
        await producer(missing, transactional_id="mine").start()


def test_an_error_of_an_option_can_be_shown_with_the_variables_of_its_frames() -> None:
    with pytest.raises(ConfigError) as caught:
        Producer(bootstrap_servers="127.0.0.1:1", acks="some")  # type: ignore[call-overload]
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    assert "<Producer that is being made>" in "".join(shown.format())
