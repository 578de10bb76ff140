"""The end of a log handler whose user interrupts it."""

from __future__ import annotations

import logging
import threading

import pytest

from aioproducer.observability.log_handler import KafkaHandler
from tests.support.waiting import wait_until


def test_ctrl_c_ends_the_wait_of_close_and_the_threads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = KafkaHandler("logs", bootstrap_servers="127.0.0.1:1", client_id="interrupted-logs")
    handler.handle(logging.LogRecord("shop", logging.INFO, __file__, 1, "paid", None, None))
    wait_until(lambda: "aioproducer-interrupted-logs" in names())

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(handler._queue, "flush", interrupt)
    with pytest.raises(KeyboardInterrupt):
        handler.close()
    wait_until(lambda: "aioproducer-interrupted-logs" not in names())
    assert handler.dropped == 1
    assert "1 log record was not sent" in capsys.readouterr().err


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}
