"""Input of every kind, read without blocking the loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from aioproducer.cli.byte_streams import ByteSource


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


async def test_a_pipe_gives_what_there_is(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    source = ByteSource(reader)
    assert source.size is None
    waiting = asyncio.create_task(source.read())
    await asyncio.sleep(0)
    assert not waiting.done()
    os.write(writer, b"typed\n")
    assert await waiting == b"typed\n"
    assert os.get_blocking(reader)
    os.close(writer)
    assert await source.read() == b""


async def test_stop_ends_a_wait_for_input(pipe: tuple[int, int]) -> None:
    source = ByteSource(pipe[0])
    waiting = asyncio.create_task(source.read())
    await asyncio.sleep(0)
    source.stop()
    assert await waiting == b""
    os.write(pipe[1], b"too late")
    assert await source.read() == b""


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "input"
    data = os.urandom(1_000_000)
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        source = ByteSource(descriptor)
        assert source.size == len(data)
        read = b""
        while chunk := await source.read():
            read += chunk
    finally:
        os.close(descriptor)
    assert read == data


async def test_dev_null_is_empty() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        assert await ByteSource(descriptor).read() == b""
    finally:
        os.close(descriptor)
