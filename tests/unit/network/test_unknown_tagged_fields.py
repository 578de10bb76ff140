"""A newer broker may add a tagged field to any struct of a flexible response (KIP-482)."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from types import GenericAlias
from typing import Any, get_args

import pytest
from kio.static.primitive import i32, i64

from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.protocol import Api
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from tests.support.kio_messages import decode, encode, response_type
from tests.support.responses import at_once, unread
from tests.unit.network.as_kio_reads import expected, plain
from tests.unit.network.test_frames import EACH, body, response, with_code

FLEXIBLE = [each for each in EACH if response_type(*each).__flexible__]
CLASS_VARIABLES = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
TOMORROW: list[tuple[str, Any, Any]] = [
    ("soon", i64, field(metadata={"kafka_type": "int64", "tag": 77}, default=0)),
    ("later", str, field(metadata={"kafka_type": "string", "tag": 9000}, default="")),
]


def structs(kind: Any) -> list[Any]:
    """``kind`` and every struct in it."""
    found = [kind]
    for each in fields(kind):
        declared = get_args(each.type)[0] if get_args(each.type) else each.type
        if is_dataclass(declared):
            found += structs(declared)
    return found


def of_tomorrow(entity: Any, levels: list[Any]) -> Any:
    """``entity`` as a broker of tomorrow writes it, with more fields in each struct of ``levels``.

    Its class is one that kio can write, and does not know how to read.
    """
    kind = type(entity)
    declared: list[tuple[str, Any, Any]] = []
    values: dict[str, Any] = {}
    for each in fields(kind):
        value, its = getattr(entity, each.name), each.type
        default = {} if each.default is MISSING else {"default": each.default}
        if is_dataclass(value):
            value = of_tomorrow(value, levels)
            its = type(value) | None if get_args(its) else type(value)
            default = {}
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            value = tuple(of_tomorrow(inner, levels) for inner in value)
            its = GenericAlias(tuple, (type(value[0]), ...))
            value = tuple(type(value[0])(**_shallow(inner)) for inner in value)
        values[each.name] = value
        declared.append((each.name, its, field(metadata=dict(each.metadata), **default)))
    if kind in levels:
        declared += TOMORROW
        values |= {"soon": 7, "later": "x" * 200}
    names = {name: getattr(kind, name) for name in CLASS_VARIABLES if hasattr(kind, name)}
    made = make_dataclass(kind.__name__, declared, namespace=names, frozen=True, kw_only=True)
    return made(**values)


def _shallow(entity: Any) -> dict[str, Any]:
    return {each.name: getattr(entity, each.name) for each in fields(entity)}


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_unknown_fields_are_skipped_at_every_level(api: Api, version: int) -> None:
    sent = response(api, version)
    kind = response_type(api, version)
    header: Any = kind.__header_schema__(correlation_id=i32(5))
    every = structs(kind)
    for levels in (*([each] for each in every), every):
        wire = encode(header) + encode(of_tomorrow(sent, levels))
        assert len(wire) > len(body(sent))
        for rest in (b"", b"\0"):
            read = decode(kind, wire + rest)
            assert (plain(read.response), read.left_over) == (expected(sent), len(rest))


@pytest.mark.parametrize("version", [version for api, version in FLEXIBLE if api is Api.METADATA])
def test_unknown_fields_of_metadata_are_skipped_where_it_is_read_in_steps(version: int) -> None:
    sent: Any = response(Api.METADATA, version)
    (topic, *_) = sent.topics
    once = dataclasses.replace(topic, partitions=topic.partitions[:1])  # it repeats a partition
    sent = dataclasses.replace(sent, topics=(once,))
    kind = response_type(Api.METADATA, version)
    header: Any = kind.__header_schema__(correlation_id=i32(5))
    meant = in_steps(version, body(sent))
    assert list(meant.topics) == [topic.name] == list(meant.details)
    assert meant.brokers
    headers = [encode(each) for each in (header, of_tomorrow(header, [type(header)]))]
    every = structs(kind)
    for levels in (*([each] for each in every), every):
        for before in headers:
            for rest in (b"", b"\0"):
                wire = before + encode(of_tomorrow(sent, levels)) + rest
                assert in_steps(version, wire, len(rest)) == meant


def in_steps(version: int, wire: bytes, left_over: int = 0) -> MetadataNews:
    told: list[None] = []
    answer = unread(version, wire, on_left_over=lambda: told.append(None))
    said = at_once(answer.read({"orders"}, {"orders"}))
    assert len(told) == left_over
    return said


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_unknown_fields_of_the_header_are_skipped(api: Api, version: int) -> None:
    sent = response(api, version)
    kind = response_type(api, version)
    header: Any = kind.__header_schema__(correlation_id=i32(5))
    if not header.__flexible__:
        assert api is Api.API_VERSIONS, "which an old broker has to understand, too"
        return
    wire = encode(of_tomorrow(header, [type(header)])) + encode(sent)
    read = decode(kind, wire)
    assert (plain(read.response), read.left_over) == (expected(sent), 0)


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_unknown_fields_and_an_unknown_error_code(api: Api, version: int) -> None:
    kind = response_type(api, version)
    stand_in = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    known = with_code(response(api, version), stand_in)
    wire = body(of_tomorrow(known, structs(kind)))
    wire = wire.replace(int(stand_in).to_bytes(2, "big"), (9999).to_bytes(2, "big"))
    assert (9999).to_bytes(2, "big") in wire
    assert plain(decode(kind, wire).response) == expected(known, 9999)


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_a_field_that_is_cut_off_is_refused_wherever_it_ends(api: Api, version: int) -> None:
    kind = response_type(api, version)
    wire = body(of_tomorrow(response(api, version), [kind]))
    whole = len(body(response(api, version)))
    for end in range(whole, len(wire)):
        with pytest.raises(ProtocolError):
            decode(kind, wire[:end])


@pytest.mark.parametrize("count", [b"\x02", b"\xff\xff\xff\xff\x0f"])
@pytest.mark.parametrize("size", [b"\x01", b"\xff\xff\xff\xff\x0f"])
def test_more_fields_than_there_are_and_larger_ones_are_refused(count: bytes, size: bytes) -> None:
    kind = response_type(Api.INIT_PRODUCER_ID, 5)
    wire = body(response(Api.INIT_PRODUCER_ID, 5))[:-1]
    with pytest.raises(ProtocolError):
        decode(kind, wire + count + b"\x4d" + size + b"!")
