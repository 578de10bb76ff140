"""Damaged batches: an error that names the batch or the records that are there, never else.

The compiled form and its reference agree on every one of them. ``make sanitize SEEDS=100`` tries
more, and looks at each read of the compiled form. ``damaged_batches.txt`` keeps what was found.
"""

from __future__ import annotations

import os
import re
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from aioproducer.engine.records import decoder
from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.decoder import decode
from aioproducer.engine.records.encoded_batch import batches_in
from aioproducer.errors import CorruptRecordsError
from aioproducer.foundation.varint import encode_varint
from aioproducer.model import ConsumerRecord
from tests.support.encoded_batches import (
    FORMS,
    WHERE,
    batch,
    exact,
    record,
    with_right_checksum,
)

CODECS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
HEADER: Final = 61
LIMIT: Final = 1_000_000
ROUNDS: Final = 150
SEEDS: Final = range(int(os.environ.get("AIOPRODUCER_DAMAGE_SEEDS", "8")))  # make sanitize
INPUT: Final = os.environ.get("AIOPRODUCER_DAMAGED_INPUT")
KEPT: Final = [
    line.split(" ", 1)
    for line in Path(__file__).with_name("damaged_batches.txt").read_text("utf-8").splitlines()
]
"""Batches in hexadecimal digits, each with the codec that it reaches or what is said of it."""
NAMED: Final = rf"{WHERE} (at offset -?\d+|are corrupt: the response has)"

RECORDS: Final = [
    record(0),
    record(1, b"", b"", [(b"trace", b"1"), (b"trace", None), ("größe".encode(), b"")]),
    record(2, None, b"key", timestamp_delta=-5),
    record(4, b"value " * 40, b"k" * 70, [(b"\xff\xfe", b"x" * 200)], timestamp_delta=2**40),
    *(record(5 + number, b"value %d" % number, timestamp_delta=number) for number in range(60)),
]


def compressed(codec: str, payload: bytes) -> bytes:
    used = compression(codec)
    return payload if used is None else used.compress(memoryview(payload))


def whole(codec: str, payload: bytes = b"".join(RECORDS), count: int = len(RECORDS)) -> bytes:
    return batch(
        compressed(codec, payload),
        count,
        base_offset=1_000,
        last_offset_delta=70,
        attributes=CODECS.index(codec),
        producer=(7, 0, 0),
    )


def flip_bits(random: Random, data: bytearray) -> None:
    for _ in range(random.choice([1, 1, 2, 8])):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def truncate(random: Random, data: bytearray) -> None:
    del data[random.randrange(len(data)) :]


def insert_number(random: Random, data: bytearray) -> None:
    number = random.choice([0, -1, 1, 63, 64, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63)])
    place = random.randrange(len(data))
    encoded = encode_varint(number)
    data[place : place + random.choice([0, 1, len(encoded)])] = encoded


def insert_noise(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    data[place:place] = random.randbytes(random.choice([1, 2, 12, 100]))


def remove(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    del data[place : place + random.choice([1, 2, 12, 100])]


def move(random: Random, data: bytearray) -> None:
    place, other = random.randrange(len(data)), random.randrange(len(data))
    data[place : place + 16] = data[other : other + 16]


def fill(random: Random, data: bytearray) -> None:
    place = random.randrange(len(data))
    size = min(random.choice([1, 4, 8, 12]), len(data) - place)
    data[place : place + size] = random.choice([b"\0", b"\x7f", b"\x80", b"\xff"]) * size


DAMAGES: Final[list[Callable[[Random, bytearray], None]]] = [
    flip_bits,
    truncate,
    insert_number,
    insert_noise,
    remove,
    move,
    fill,
]


def damaged(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 3])):
        if changed:
            random.choice(DAMAGES)(random, changed)
    return bytes(changed)


def read(data: bytes, check_crcs: bool) -> list[ConsumerRecord] | str:
    """The records, or the error's message; control types are asked for on the way."""
    records: list[ConsumerRecord] = []
    try:
        for each in batches_in(data, WHERE, check_crcs=check_crcs):
            assert each.control_type in (None, "abort", "commit")
            found = decode(each, from_offset=1_002, until_offset=1_050, limit=LIMIT)
            assert len(found) == len(list(found))
            assert found.first_offset >= min(1_002, each.next_offset)
            records += found
            if found:
                assert found[-1] == list(found)[-1]
    except CorruptRecordsError as error:
        return str(error)
    return records


def parsed(form: Any, batch: Any, data: Any, *offsets: int) -> Any:
    return form.ParsedRecords(batch, exact(data), *offsets)


def columns(form: Any, data: bytes) -> Any:
    batches = batches_in(data, WHERE, check_crcs=False)
    parts = [parsed(form, each, each.decompressed(LIMIT), 1_002, 1_050) for each in batches]
    return form.arrow_buffers(parts)


def check(monkeypatch: pytest.MonkeyPatch, data: bytes, *, check_crcs: bool = False) -> bool:
    """True if something of ``data`` could be read."""
    if INPUT is not None:  # a sanitizer ends the process
        Path(INPUT).write_text(data.hex())
    outcomes = []
    for form in FORMS.values():
        monkeypatch.setattr(decoder, "ParsedRecords", partial(parsed, form))
        outcomes.append(read(data, check_crcs))
    assert outcomes[0] == outcomes[-1]
    assert not isinstance(outcomes[0], str) or re.search(NAMED, outcomes[0])
    if isinstance(outcomes[0], str) or not outcomes[0]:
        return False
    found = [columns(form, data) for form in FORMS.values()]
    assert found[0] == found[-1]
    return True


def test_whole_batches_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for codec in CODECS:
        assert check(monkeypatch, whole(codec), check_crcs=True)


@pytest.mark.parametrize(("digits", "says"), KEPT, ids=[each[1] for each in KEPT])
def test_kept_batches(monkeypatch: pytest.MonkeyPatch, digits: str, says: str) -> None:
    data = bytes.fromhex(digits.strip("-"))
    check(monkeypatch, data)
    found = read(data, check_crcs=False)
    if says not in CODECS:
        assert says in (found if isinstance(found, str) else f"{len(found)} records")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", SEEDS)
def test_records_that_are_damaged_before_the_compression(
    monkeypatch: pytest.MonkeyPatch, codec: str, seed: int
) -> None:
    """The damage reaches the parser of records."""
    random = Random(f"{seed} {codec}")
    seen = {
        check(monkeypatch, whole(codec, damaged(random, b"".join(RECORDS)))) for _ in range(ROUNDS)
    }
    assert seen == {True, False}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", SEEDS)
def test_compressed_records_that_are_damaged(
    monkeypatch: pytest.MonkeyPatch, codec: str, seed: int
) -> None:
    """The damage reaches the decompressors."""
    random = Random(f"{seed} {codec}")
    data = whole(codec)
    for _ in range(ROUNDS):
        payload = damaged(random, data[HEADER:])
        check(monkeypatch, resized(data[:HEADER] + payload), check_crcs=True)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", SEEDS)
def test_whole_batches_that_are_damaged(
    monkeypatch: pytest.MonkeyPatch, codec: str, seed: int
) -> None:
    random = Random(f"{seed} {codec}")
    data = whole(codec)
    for _ in range(ROUNDS):
        changed = damaged(random, data)
        check(monkeypatch, changed + data, check_crcs=True)
        check(monkeypatch, changed)
        check(monkeypatch, with_right_checksum(changed), check_crcs=True)


def resized(data: bytes) -> bytes:
    """The batch with its length and its checksum."""
    return with_right_checksum(data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:])


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_batch(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)
    header = whole("none")[:HEADER]
    for _ in range(ROUNDS):
        check(monkeypatch, random.randbytes(random.randrange(200)))
        codec = random.randrange(8).to_bytes(1, "big")
        noise = header[:22] + codec + header[23:] + random.randbytes(random.randrange(200))
        check(monkeypatch, resized(noise), check_crcs=True)


def test_damaged_batches_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(5)
    most = 0
    for number in range(300):
        data = whole(CODECS[number % len(CODECS)])
        changed = resized(data[:HEADER] + damaged(random, data[HEADER:]))
        tracemalloc.start()
        check(monkeypatch, changed)
        most = max(most, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most < 3 * LIMIT
