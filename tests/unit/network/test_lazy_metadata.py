"""A Metadata response piece by piece: what kio wrote, what is damaged, and what is new in it."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest
from kio.static.primitive import i32

from aioproducer.engine.network.request import LazyMetadataResponse
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors import ProtocolError
from tests.support.kio_messages import encode, response_bytes, response_module, response_type
from tests.support.responses import metadata_answer, read_to_its_end, unread
from tests.unit.cluster.test_metadata_response import response
from tests.unit.network.as_kio_reads import expected, kios_reading, plain, varied

LOWEST, HIGHEST = SUPPORTED[Api.METADATA]
VERSIONS = range(LOWEST, HIGHEST + 1)
ALL = frozenset({"orders", "größe"})
TOPICS: Any = [("orders", 0, [(0, 1, 7), (1, -1, 8)]), ("größe", 3, [])]


def structs(whole: Any) -> list[Any]:
    """The structs in kio's response, in the order of their ends."""
    found = [*whole.brokers]
    for topic in whole.topics:
        found += [*topic.partitions, topic]
    return [*found, whole]


def said(entity: Any) -> tuple[str, dict[str, Any]]:
    """The name of one of kio's structs and its values; lists of structs are empty."""
    return type(entity).__name__, without_structs(expected(entity))


def without_structs(values: dict[str, Any]) -> dict[str, Any]:
    lists = ("brokers", "topics", "partitions")
    return {name: [] if name in lists else value for name, value in values.items()}


@pytest.mark.parametrize("version", VERSIONS)
def test_it_says_what_kio_reads(version: int) -> None:
    kind = response_type(Api.METADATA, version)
    for seed in range(40):
        wire = response_bytes(varied(kind, Random(seed)))
        whole = kios_reading(kind, wire)
        answer = unread(version, wire, on_left_over=pytest.fail)
        pieces = [(type(each).__name__, plain(each)) for each in answer.pieces()]
        assert pieces == [said(each) for each in structs(whole)]
        assert answer.throttle_time_ms == expected(whole)["throttle_time_ms"]


NUMBERS = ("replica_nodes", "isr_nodes", "offline_replicas")


@pytest.mark.parametrize("version", VERSIONS)
def test_lists_of_numbers_are_left_out_where_nobody_wants_them(version: int) -> None:
    kind = response_type(Api.METADATA, version)
    replicas = 0
    for seed in range(40):
        answer = unread(version, response_bytes(varied(kind, Random(seed))))
        whole = [plain(each) for each in answer.pieces()]
        assert [plain(each) for each in answer.pieces(lists=False)] == [
            {name: [] if name in NUMBERS and value else value for name, value in each.items()}
            for each in whole
        ]
        replicas += sum(len(each.get("isr_nodes", ())) for each in whole)
    assert replicas


@pytest.mark.parametrize("version", [LOWEST, 9, HIGHEST])
def test_bytes_left_over_are_skipped(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS))
    told: list[str] = []
    for rest in (b"", b"\0", b"\0stray"):
        longer = unread(
            answer._version, answer._body + rest, on_left_over=lambda: told.append("odd")
        )
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
    assert list(unread(answer._version, body).pieces()) == pieces


def tagged_at(answer: LazyMetadataResponse) -> list[int]:
    """The offsets of the numbers of tagged fields: each is the last byte of a struct."""
    body = answer._body
    found: list[int] = []
    for each in structs(kios_reading(response_type(Api.METADATA, answer._version), body)):
        wire = encode(each)
        assert body.count(wire) == 1
        found.append(body.index(wire) + len(wire) - 1)
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_whatever_is_cut_off_is_a_protocol_error(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS))
    for length in range(len(answer._body)):
        with pytest.raises(ProtocolError, match=r"understood|announces"):
            list(unread(answer._version, answer._body[:length], lambda _: None).read(ALL))


@pytest.mark.parametrize("version", [LOWEST, 9, HIGHEST])
def test_any_damaged_byte_is_read_or_ends_the_connection(version: int) -> None:
    answer = metadata_answer(response(version, TOPICS))
    for index in range(len(answer._body)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            body = answer._body[:index] + bytes([value]) + answer._body[index + 1 :]
            with suppress(ProtocolError):
                read_to_its_end(unread(answer._version, body), ALL, ALL)


@pytest.mark.parametrize("version", [LOWEST, HIGHEST])
def test_an_absurd_number_of_elements_takes_no_memory(version: int) -> None:
    absurd = b"\x7f\xff\xff\xff" if version < 9 else b"\xff\xff\xff\xff\x0f"
    head = b"\0\0\0\1" + (b"" if version < 9 else b"\0") + b"\0\0\0\0"
    answer = unread(version, head + absurd + bytes(50), lambda _: None)
    with pytest.raises(ProtocolError, match="elements, but only 50 bytes follow"):
        list(answer.read(ALL))


def test_the_helpers_of_these_tests() -> None:
    parts: Any = response_module(Api.METADATA, HIGHEST)
    broker = parts.MetadataResponseBroker(node_id=i32(1), host="h", port=i32(2), rack=None)
    named = {"node_id": 1, "host": "h", "port": 2, "rack": None}
    assert said(broker) == ("MetadataResponseBroker", named)
