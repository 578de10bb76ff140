"""The dead letter file: whole lines, whatever a crash or a full disk does."""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.engine.core.failures import FailedRecordHandler
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.failed_records import DeadLetter, DeadLetterFile, append_lines, read_dead_letters
from aioproducer.model import FailedRecord

CONFIG = ProducerConfig(bootstrap_servers="localhost:9092")


def failed(value: bytes, *, uncertain: bool = False) -> FailedRecord:
    return FailedRecord("orders", 1, None, value, (), 7, DeliveryTimeoutError("late"), uncertain)


def values(path: Path) -> list[bytes | None]:
    return [letter.value for letter in read_dead_letters(path)]


async def test_records_are_appended_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "failed.jsonl"
    for number in range(2):  # the second one appends to the file of the first
        handler = DeadLetterFile(path).handler_for(CONFIG)
        await handler.handle([failed(b"%d-1" % number), failed(b"%d-2" % number)])
        await handler.close()
    assert values(path) == [b"0-1", b"0-2", b"1-1", b"1-2"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_records_that_may_have_been_written_are_marked_or_skipped(tmp_path: Path) -> None:
    records = [failed(b"1", uncertain=True), failed(b"2")]
    kept, skipped = tmp_path / "kept", tmp_path / "skipped"
    await DeadLetterFile(kept).handler_for(CONFIG).handle(records)
    await DeadLetterFile(skipped, uncertain="skip").handler_for(CONFIG).handle(records)
    await DeadLetterFile(skipped, uncertain="skip").handler_for(CONFIG).handle(records[:1])
    assert [letter.may_have_been_written for letter in read_dead_letters(kept)] == [True, False]
    assert values(skipped) == [b"2"]


async def test_a_line_that_a_crash_has_cut_off_spoils_no_other_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "failed.jsonl"
    line = DeadLetter.of(failed(b"1")).line()
    path.write_bytes(line + line[:40])
    assert values(path) == [b"1"]
    await DeadLetterFile(path, fsync=False).handler_for(CONFIG).handle([failed(b"2")])
    assert values(path) == [b"1", b"2"]
    assert "line 2 is skipped" in caplog.text


class Kept:
    def __init__(self) -> None:
        self.records: list[bytes | None] = []

    def handler_for(self, _config: ProducerConfig) -> FailedRecordHandler:
        return self

    async def handle(self, records: Sequence[FailedRecord]) -> None:
        self.records += [record.value for record in records]

    async def close(self) -> None: ...


async def test_records_that_cannot_be_written_go_to_the_fallback(tmp_path: Path) -> None:
    fallback = Kept()
    hook = DeadLetterFile(tmp_path / "nowhere" / "failed", fallback=fallback)
    await hook.handler_for(CONFIG).handle([failed(b"1"), failed(b"2")])
    assert fallback.records == [b"1", b"2"]


async def test_without_a_fallback_a_line_counts_the_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = DeadLetterFile(tmp_path / "nowhere" / "failed")
    await hook.handler_for(CONFIG).handle([failed(b"1"), failed(b"2")])
    assert "could not keep 2 failed records of topic orders" in caplog.text


def test_a_write_that_fails_in_the_middle_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "failed.jsonl")
    append_lines(path, b"first\n", fsync=True)
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) <= 5:
            raise OSError(28, "No space left on device")
        return write(file, data[:-5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        append_lines(path, b"a second line\n", fsync=True)
    monkeypatch.undo()
    assert Path(path).read_bytes() == b"first\n"


def test_several_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    path = str(tmp_path / "failed.jsonl")

    def append(name: bytes) -> None:
        for _ in range(50):
            append_lines(path, (name * 5_000 + b"\n") * 2, fsync=False)

    threads = [Thread(target=append, args=(name,)) for name in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = Path(path).read_bytes().splitlines()
    assert len(lines) == 300
    assert all(len(line) == 5_000 and len(set(line)) == 1 for line in lines)


# --- what is no regular file ---------------------------------------------------------------------


def test_a_pipe_gets_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        for number in range(2):
            append_lines(str(path), b"%d\n" % number, fsync=True)
        assert os.read(reader, 100) == b"0\n1\n"
    finally:
        os.close(reader)


def test_more_than_a_pipe_holds_waits_for_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    found: list[bytes] = []
    reader = Thread(target=lambda: found.append(path.read_bytes()))
    reader.start()
    with open(path, "wb"):  # so that the reader is there, and sees no end between the lines
        lines = (b"x" * 999 + b"\n") * 1_000
        append_lines(str(path), lines, fsync=True)
    reader.join()
    assert found == [lines]


async def test_records_for_a_pipe_that_nobody_reads_go_to_the_fallback(tmp_path: Path) -> None:
    """Bytes in a pipe are lost when its last end is closed."""
    path, fallback = tmp_path / "fifo", Kept()
    os.mkfifo(path)
    await DeadLetterFile(path, fallback=fallback).handler_for(CONFIG).handle([failed(b"1")])
    assert fallback.records == [b"1"]


async def test_a_pipe_s_reader_that_ends_is_an_error(tmp_path: Path) -> None:
    path, fallback = tmp_path / "fifo", Kept()
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    handler = DeadLetterFile(path, fallback=fallback).handler_for(CONFIG)
    writing = asyncio.ensure_future(handler.handle([failed(bytes(1_000_000))]))
    await asyncio.to_thread(select.select, [reader], [], [])
    os.close(reader)
    await writing
    assert fallback.records == [bytes(1_000_000)]
    await handler.close()


async def test_a_pipe_of_another_process_gets_the_records(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        fallback = Kept()
        hook = DeadLetterFile(f"/dev/fd/{writer}", fallback=fallback)
        await hook.handler_for(CONFIG).handle([failed(b"1")])
        assert fallback.records == []
        assert DeadLetter.of_line(os.read(reader, 10_000)).value == b"1"
    finally:
        os.close(reader)
        os.close(writer)


async def test_a_device_that_takes_everything(caplog: pytest.LogCaptureFixture) -> None:
    fallback = Kept()
    hook = DeadLetterFile("/dev/null", fallback=fallback)
    await hook.handler_for(CONFIG).handle([failed(b"1")])
    assert fallback.records == []
    assert caplog.records == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no /dev/full")
async def test_a_full_device_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    await DeadLetterFile("/dev/full").handler_for(CONFIG).handle([failed(b"1")])
    assert "No space left on device" in caplog.text


def test_a_failed_write_is_the_error_even_if_the_file_keeps_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_file: int, _data: bytes) -> int:
        raise OSError(28, "No space left on device")

    def broken(_file: int, _size: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "write", full)
    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(OSError, match="No space left"):
        append_lines(str(tmp_path / "failed.jsonl"), b"a line\n", fsync=True)


def test_lines_are_written_though_their_directory_cannot_be_synchronized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fsync = os.fsync

    def of_files(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(22, "Invalid argument")
        fsync(file)

    monkeypatch.setattr(os, "fsync", of_files)
    append_lines(str(tmp_path / "failed.jsonl"), b"a line\n", fsync=True)
    assert (tmp_path / "failed.jsonl").read_bytes() == b"a line\n"
    assert "Invalid argument" in caplog.text
