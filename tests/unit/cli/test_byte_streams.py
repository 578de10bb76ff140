"""Input of every kind is read, and output is written, without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from aioproducer.cli.byte_streams import ByteSink, ByteSource


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


async def test_a_slow_reader_gets_everything_and_the_loop_goes_on(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    data = os.urandom(1_000_000)
    writing = asyncio.create_task(ByteSink(writer).write(data))
    got = bytearray()
    while len(got) < len(data):
        await asyncio.sleep(0)
        assert not writing.done() or len(data) - len(got) <= 65536
        got += os.read(reader, 10_000)
    await writing
    assert bytes(got) == data


async def test_a_write_that_waits_can_be_cancelled(pipe: tuple[int, int]) -> None:
    _, writer = pipe
    writing = asyncio.create_task(ByteSink(writer).write(bytes(1_000_000)))
    done, _ = await asyncio.wait([writing], timeout=0.05)
    assert not done
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing


async def test_a_reader_that_has_gone_is_noticed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    sink = ByteSink(writer)
    assert not sink.broken
    os.close(reader)
    assert sink.broken
    with pytest.raises(BrokenPipeError):
        await sink.write(b"x")


async def test_a_reader_that_goes_during_a_write_ends_it(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    writing = asyncio.create_task(ByteSink(writer).write(bytes(1_000_000)))
    await asyncio.sleep(0)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        await writing


async def test_regular_files_take_everything(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        sink = ByteSink(file.fileno())
        assert not sink.broken
        await sink.write(b"one\n" * 100_000)
        await sink.write(b"end")
    assert (tmp_path / "out").read_bytes() == b"one\n" * 100_000 + b"end"
