"""The dead letter file: whole lines, whatever a crash or a full disk does."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

import pytest

from aioproducer.config import ProducerConfig
from aioproducer.errors import DeliveryTimeoutError
from aioproducer.failed_records import DeadLetter, DeadLetterFile, read_dead_letters
from aioproducer.failed_records.dead_letter_file import append_lines
from aioproducer.failures import FailedRecordHandler
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
