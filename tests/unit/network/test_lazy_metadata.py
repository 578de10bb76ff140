"""A Metadata response piece by piece: what kio wrote, what is damaged, and what is new in it."""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import Any

import pytest
from kio.serial import entity_reader
from kio.static.primitive import i32

from aioproducer.engine.network.apis import SUPPORTED, Api, response_type
from aioproducer.engine.network.lazy_metadata import LazyMetadataResponse
from aioproducer.errors import ProtocolError
from tests.support.responses import metadata_answer, read_to_its_end, unread
from tests.unit.cluster.test_metadata_response import made, response

LOWEST, HIGHEST = SUPPORTED[Api.METADATA]
VERSIONS = range(LOWEST, HIGHEST + 1)
ALL = frozenset({"orders", "größe"})
TOPICS: Any = [("orders", 0, [(0, 1, 7), (1, -1, 8)]), ("größe", 3, [])]


def said(entity: Any) -> dict[str, Any]:
    """The fields of one of kio's structs that are no lists of structs, as plain values."""
    values = {name: getattr(entity, name) for name in entity.__slots__}
    return {
        name: value.value if name == "error_code" else value
        for name, value in values.items()
        if name not in ("brokers", "topics", "partitions", "throttle_time")
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_it_says_what_kio_reads(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS, [(1, "h", 9, None), (2, "::1", 3, "r")]))
    kind: Any = response_type(Api.METADATA, version)
    _, start = entity_reader(kind.__header_schema__)(answer._body, 0)
    whole, _ = entity_reader(kind)(answer._body, start)
    expected = [said(broker) for broker in whole.brokers]
    for topic in whole.topics:
        expected += [*(said(each) for each in topic.partitions), said(topic)]
    expected.append(said(whole))
    pieces = [dict(each.fields) for each in answer.pieces()]
    pieces[-1].pop("throttle_time")
    assert pieces == expected
    assert answer.version == version
    assert answer.throttle_time == whole.throttle_time


@pytest.mark.parametrize("version", [LOWEST, 9, HIGHEST])
def test_bytes_left_over_are_skipped(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS))
    told: list[str] = []
    for rest in (b"", b"\0", b"\0stray"):
        longer = unread(answer._kind, answer._body + rest, on_left_over=lambda: told.append("odd"))
        assert list(longer.pieces()) == list(answer.pieces())
        assert len(told) == bool(rest)
        told.clear()


@pytest.mark.parametrize("version", [9, HIGHEST])
def test_tagged_fields_of_a_newer_broker_are_skipped_at_each_level(version: int) -> None:
    """Each struct of a flexible version ends with the number of its tagged fields (KIP-482)."""
    answer = metadata_answer(response(version, [("orders", 0, [(0, 1, 7)])]))
    pieces = list(answer.pieces())
    ends = tagged_at(answer)
    assert len(ends) == len(pieces)
    body = answer._body
    for end in sorted(ends, reverse=True):
        assert body[end] == 0
        body = body[:end] + b"\x02\x07\x00\x81\x01\x03new" + body[end + 1 :]
    assert list(unread(answer._kind, body).pieces()) == pieces


def tagged_at(answer: LazyMetadataResponse) -> list[int]:
    """The offsets of the numbers of tagged fields."""
    found: list[int] = []
    module = importlib.import_module("aioproducer.engine.network.lazy_metadata")
    skip = module._skip_tagged

    def note(body: bytes, offset: int) -> Any:
        found.append(offset)
        return skip(body, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_skip_tagged", note)
        list(answer.pieces())
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_is_cut_off_is_a_protocol_error(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS))
    for length in range(len(answer._body)):
        with pytest.raises(ProtocolError, match=r"understood|announces"):
            list(unread(answer._kind, answer._body[:length], lambda _: None).read(ALL))


@pytest.mark.parametrize("version", [LOWEST, 9, HIGHEST])
def test_any_damaged_byte_is_read_or_ends_the_connection(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS))
    for index in range(len(answer._body)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            body = answer._body[:index] + bytes([value]) + answer._body[index + 1 :]
            with suppress(ProtocolError):
                read_to_its_end(unread(answer._kind, body), ALL, ALL)


@pytest.mark.parametrize("version", [LOWEST, HIGHEST])
def test_an_absurd_number_of_elements_takes_no_memory(version: int) -> None:
    kind: Any = response_type(Api.METADATA, version)
    absurd = b"\x7f\xff\xff\xff" if version < 9 else b"\xff\xff\xff\xff\x0f"
    head = b"\0\0\0\1" + (b"" if version < 9 else b"\0") + b"\0\0\0\0"
    answer = unread(kind, head + absurd + bytes(50), lambda _: None)
    with pytest.raises(ProtocolError, match="elements, but only 50 bytes follow"):
        list(answer.read(ALL))


def test_the_helpers_of_these_tests() -> None:
    parts: Any = importlib.import_module(response_type(Api.METADATA, HIGHEST).__module__)
    broker = made(parts.MetadataResponseBroker, node_id=i32(1), host="h", port=i32(2), rack=None)
    assert said(broker) == {"node_id": 1, "host": "h", "port": 2, "rack": None}
