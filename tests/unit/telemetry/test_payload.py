"""The codec that both sides have, and what is left out for the lack of room."""

from __future__ import annotations

import sys

import pytest

from aioproducer.engine.records.compression import compression
from aioproducer.engine.records.encoded_batch import decompress
from aioproducer.engine.telemetry.payload import (
    first_available,
    fitting,
    gauge,
    gauge_point,
    point_heads,
)
from aioproducer.foundation.codecs import load_codecs
from tests.unit.telemetry.snapshots import points

GROUPS = {
    name: gauge(name, b"".join(gauge_point(point_heads({"t": str(n)}), 5, n) for n in range(count)))
    for name, count in (("few", 1), ("some", 10), ("many", 1000))
}
RESOURCE = {"transactional_id": "t"}


@pytest.mark.parametrize(
    ("accepted", "name"),
    [
        ((4, 3, 1, 2), "zstd"),
        ((3, 4), "lz4"),
        ((1,), "gzip"),
        ((2, 1), "snappy"),
        ((99, -1, 2**31, 1), "gzip"),
        ((), None),
        ((0, 4), None),
        ((99,), None),
    ],
)
def test_the_first_codec_that_the_broker_names(accepted: tuple[int, ...], name: str | None) -> None:
    load_codecs()
    chosen = first_available(accepted, ())
    assert (None if chosen is None else chosen.name) == name


def test_a_codec_that_a_broker_has_refused_is_skipped() -> None:
    load_codecs()
    chosen = first_available((4, 3), {4})
    assert chosen is not None
    assert chosen.name == "lz4"
    assert first_available((4, 3), {4, 3}) is None


def test_a_codec_whose_library_is_not_loaded_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    load_codecs()
    monkeypatch.delitem(sys.modules, "zstandard")
    chosen = first_available((4, 3), ())
    assert chosen is not None
    assert chosen.name == "lz4"


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_everything_where_there_is_room(name: str) -> None:
    codec = compression(name)
    payload = fitting(GROUPS, RESOURCE, codec, 100_000)
    assert payload is not None
    assert payload.left_out == ()
    assert payload.compression_id == (0 if codec is None else codec.id)
    data = bytes(decompress(payload.compression_id, memoryview(payload.data), 1_000_000))
    assert len(points(data)) == 1011


def test_the_largest_groups_are_left_out_first() -> None:
    payload = fitting(GROUPS, RESOURCE, None, 1_000)
    assert payload is not None
    assert payload.left_out == ("many",)
    assert len(payload.data) <= 1_000
    assert len(points(payload.data)) == 11
    least = fitting(GROUPS, RESOURCE, None, 100)
    assert least is not None
    assert least.left_out == ("some", "many")
    assert fitting(GROUPS, RESOURCE, None, 10) is None
    assert fitting({}, RESOURCE, None, 1_000) is None
