"""Output never blocks the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioproducer.cli.byte_streams import ByteSink


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for descriptor in (reader, writer):
        try:
            os.close(descriptor)
        except OSError:
            continue


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
