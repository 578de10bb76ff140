"""``aioproducer topics delete`` asks on a terminal before it connects."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "aioproducer", "topics", "delete", "orders", "-b", "localhost:1"]
NOT_DONE, WRONG_USE = 1, 2


@pytest.mark.parametrize("answer", [b"n\n", b"\n"])
def test_no_is_an_answer(answer: bytes) -> None:
    terminal, slave = os.openpty()
    try:
        os.write(terminal, answer)
        ended = subprocess.run(
            COMMAND, stdin=slave, capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        os.close(terminal)
        os.close(slave)
    assert ended.returncode == NOT_DONE
    assert "Delete orders with all records?" in ended.stderr
    assert ended.stderr.splitlines()[-1].endswith("nothing was deleted")
    assert ended.stdout == ""


def test_nobody_can_be_asked_without_a_terminal() -> None:
    ended = subprocess.run(
        COMMAND, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == WRONG_USE
    assert "give --yes to delete orders" in ended.stderr
