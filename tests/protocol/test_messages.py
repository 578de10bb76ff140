"""Our reading of Kafka's definitions, and what damaged bytes can do to it."""

from __future__ import annotations

import datetime
import struct
import tracemalloc
from collections.abc import Generator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any, Final
from uuid import UUID

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader
from kio.serial.errors import SerialError

from aioproducer.engine.protocol import Api, request_schema, response_schema
from aioproducer.errors import ProtocolError, UnsupportedVersionError
from aioproducer.testing.fault_proxy.faults import damaged
from tests.protocol.messages import Case, cases
from tests.support.kio_messages import encode, judged, request_module, response_module
from tests.support.responses import at_once

pytestmark = pytest.mark.any_form


def has_kio(case: Case) -> bool:
    """True if kio has the message in that version."""
    return case.api >= 0 and case.version in judged(Api(case.api))


CASES: Final = [pytest.param(case, id=case.name) for case in cases()]
WITH_KIO: Final = [pytest.param(case, id=case.name) for case in cases() if has_kio(case)]
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
MILLISECOND: Final = datetime.timedelta(milliseconds=1)
REFUSALS: Final = (ProtocolError, struct.error, IndexError, ValueError)


@pytest.mark.parametrize("case", CASES)
def test_what_is_written_is_read_again(case: Case) -> None:
    random = Random(case.name)
    for _ in range(10):
        message = case.draw(random)
        data = case.schema.encode(message, case.version)
        read, end = case.schema.decode(data, 0, case.version)
        assert end == len(data)
        assert plain(read, case) == plain(message, case)
        assert case.schema.encode(read, case.version) == data
        longer, found = b"before" + data + b"behind", (read, 6 + len(data))
        assert case.schema.decode(longer, 6, case.version) == found
        assert at_once(case.schema.decode_with_rests(longer, 6, case.version)) == found


@pytest.mark.parametrize("case", [each for each in CASES if "MetadataResponse" in str(each.id)])
def test_steps_have_every_struct_once_and_the_message_at_last(case: Case) -> None:
    random = Random(case.name)
    for _ in range(5):
        message = case.draw(random)
        data = case.schema.encode(message, case.version)
        steps = case.schema.decode_in_steps(data, 0, case.version, numbers=True)
        pieces: list[Any] = []
        end = at_once(_kept(steps, pieces))
        assert end == len(data)
        whole, _ = case.schema.decode(data, 0, case.version)
        assert sorted(type(each).__name__ for each in pieces) == sorted(_in_lists(whole))
        assert type(pieces[-1]) is type(whole)


def _kept(steps: Generator[Any, None, int], pieces: list[Any]) -> Generator[None, None, int]:
    while True:
        try:
            pieces.append(next(steps))
        except StopIteration as end:
            return int(end.value)
        yield


def _in_lists(message: Any) -> list[str]:
    found = [type(message).__name__]
    for value in message:
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            for each in value:
                found += _in_lists(each) if hasattr(each, "_fields") else []
    return found


@pytest.mark.parametrize("case", WITH_KIO)
def test_kio_reads_the_same_and_writes_the_same_bytes(case: Case) -> None:
    load = load_request_schema if case.kind == "request" else load_response_schema
    kind: Any = load(case.api, case.version)
    random = Random(case.name)
    compared = 0
    for _ in range(15):
        data = case.schema.encode(case.draw(random), case.version)
        ours, _ = case.schema.decode(data, 0, case.version)
        try:
            theirs, end = entity_reader(kind)(data, 0)
        except (ValueError, OverflowError, SerialError):
            continue  # an error code or a time that it has no type for
        assert end == len(data)
        compared += 1
        assert same(ours, theirs), (ours, theirs)
        assert encode(theirs) == data
    assert compared or _has_codes(case), "kio could read none"


def _has_codes(case: Case) -> bool:
    names = {
        each.name for of in case.schema.form(case.version).structs.values() for each in of.fields
    }
    return any("error_code" in name or name.endswith("_ms") for name in names)


@pytest.mark.parametrize("case", WITH_KIO)
def test_kio_has_the_same_fields(case: Case) -> None:
    load = request_module if case.kind == "request" else response_module
    module = load(Api(case.api), case.version)
    structs = case.schema.form(case.version).structs
    named = {name: kind for name, kind in vars(module).items() if name in structs}
    for name, kind in named.items():
        theirs = [_our_name(each.name, structs[name].kind) for each in fields(kind)]
        ours = [each.name for each in structs[name].fields if case.version in each.versions]
        assert ours == [each for each in theirs if each in ours]
        assert len(ours) == len(theirs)
    assert case.schema.name in named


def _our_name(name: str, kind: Any) -> str:
    """kio has other names for times, and an older one for generations."""
    names = (name, f"{name}_ms", f"{name}_or_member_epoch")
    return next((each for each in names if each in kind._fields), name)


def same(ours: Any, theirs: Any) -> bool:
    """True if a message of kio's says the same as ours."""
    if is_dataclass(theirs):
        return all(
            same(
                getattr(ours, _our_name(each.name, type(ours)), None),
                getattr(theirs, each.name),
            )
            for each in fields(theirs)
        )
    if isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    match theirs:
        case datetime.datetime():
            return bool(ours == (theirs - EPOCH) // MILLISECOND)
        case datetime.timedelta():
            return bool(ours == theirs // MILLISECOND)
        case None:
            return ours in (None, -1)
    return bool(ours == theirs)


def plain(message: Any, case: Case) -> Any:
    """The values of a message in ``case``'s version, and of the structs in it."""
    if hasattr(message, "_fields"):
        known = case.schema.form(case.version).structs[type(message).__name__]
        return {
            each.name: plain(getattr(message, each.name), case)
            for each in known.fields
            if case.version in each.versions
        }
    return [plain(each, case) for each in message] if isinstance(message, tuple) else message


# --- damage -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_damaged_bytes_are_read_or_refused_and_take_no_memory(case: Case) -> None:
    random = Random(f"damage {case.name}")
    refused = 0
    wires = [case.schema.encode(case.draw(random), case.version)[:3_000] for _ in range(6)]
    tracemalloc.start()
    try:
        for wire in wires * 10:
            broken = damaged(wire, random, changes=random.choice((1, 3))) if wire else b""
            try:
                case.schema.decode(broken, 0, case.version)
            except REFUSALS:
                refused += 1
            with suppress(*REFUSALS):
                for _ in case.schema.decode_in_steps(broken, 0, case.version, numbers=True):
                    pass
            with suppress(*REFUSALS):
                at_once(case.schema.decode_with_rests(broken, 0, case.version))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000
    assert refused or not any(wires) or max(map(len, wires)) < 20


@pytest.mark.parametrize("case", CASES)
def test_bytes_that_end_too_early_are_refused(case: Case) -> None:
    random = Random(f"end {case.name}")
    message = case.draw(random)
    data = case.schema.encode(message, case.version)[:400]
    whole = len(case.schema.encode(message, case.version))
    for end in range(len(data)):
        try:
            _, used = case.schema.decode(data[:end], 0, case.version)
        except REFUSALS:
            continue
        assert used > end or whole <= end, "the end is behind the bytes, which the caller refuses"


# --- making messages --------------------------------------------------------------------------


def test_a_field_that_would_get_lost_is_refused() -> None:
    schema = request_schema(Api.FIND_COORDINATOR)
    with pytest.raises(UnsupportedVersionError, match=r"version 3 of .* coordinator_keys"):
        schema.encode(schema.FindCoordinatorRequest(coordinator_keys=("a",)), 3)
    assert schema.encode(schema.FindCoordinatorRequest(key="a"), 3) == b"\2a\0\0"


def test_a_field_that_may_be_left_out_is_left_out() -> None:
    schema = request_schema(Api.LIST_OFFSETS)
    partition = schema.ListOffsetsPartition(partition_index=1, current_leader_epoch=7, timestamp=3)
    assert schema.encode(partition, 3) == struct.pack(">iq", 1, 3)


def test_a_version_that_is_not_spoken_and_a_null_are_refused() -> None:
    schema = request_schema(Api.METADATA)
    with pytest.raises(UnsupportedVersionError, match="no version 99"):
        schema.encode(schema.MetadataRequest(), 99)
    with pytest.raises(UnsupportedVersionError, match="no version 3"):
        schema.decode(b"", 0, 3)
    with pytest.raises(ProtocolError, match=r"MetadataRequestTopic\.name can't be null"):
        schema.encode(schema.MetadataRequestTopic(name=None), 4)
    with pytest.raises(AttributeError, match="MetadataRequest has no struct 'Nothing'"):
        schema.Nothing  # noqa: B018


def test_a_text_that_does_not_fit_is_refused() -> None:
    schema = request_schema(Api.METADATA)
    longest, longer = ("x" * size for size in (32_767, 32_768))
    topic = schema.MetadataRequestTopic
    assert len(schema.encode(topic(name=longest), 8)) == 2 + 32_767
    assert len(schema.encode(topic(name=longer), 9)) == 3 + 32_768 + 1
    with pytest.raises(UnsupportedVersionError, match="32768 bytes"):
        schema.encode(topic(name=longer), 8)


def test_a_message_of_mappings() -> None:
    schema = response_schema(Api.METADATA)
    said = {
        "cluster_id": "c",
        "error_code": 7,
        "topics": [{"name": "orders", "topic_id": UUID(int=1), "partitions": [{}]}],
    }
    late, early = schema.of(said, 13), schema.of(said, 4)
    assert (late.error_code, late.topics[0].topic_id) == (7, UUID(int=1))
    assert (early.error_code, early.topics[0].topic_id) == (0, None)
    assert early.topics[0].partitions[0] == schema.MetadataResponsePartition()
    with pytest.raises(TypeError, match="nonsense"):
        schema.of({"nonsense": 1}, 13)
