"""CloudEvents, by the rules of their Kafka protocol binding, and read by their own package."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from cloudevents.core.bindings.kafka import KafkaMessage, from_kafka
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v03.event import CloudEvent as CloudEventV03
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import Producer
from aioproducer.errors import ConfigError, MissingExtraError, SerializationError
from aioproducer.serialization import (
    CloudEventDeserializer,
    CloudEventMode,
    CloudEventSerializer,
    RecordHeaders,
)

MODES: tuple[CloudEventMode, ...] = ("binary", "structured")
JSON = "application/cloudevents+json; charset=UTF-8"


def event(data: Any = None, **attributes: Any) -> CloudEvent:
    return CloudEvent(
        {
            "id": "1",
            "source": "/shop",
            "type": "order.placed",
            "time": datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC),
            **attributes,
        },
        data,
    )


def sent(of: Any, mode: CloudEventMode) -> tuple[bytes | None, RecordHeaders]:
    headers: RecordHeaders = []
    return CloudEventSerializer(mode).serialize("orders", of, headers), headers


def test_binary_mode() -> None:
    value, headers = sent(
        event({"number": 1}, datacontenttype="application/json", subject="Grüße", traced=True),
        "binary",
    )
    assert value == b'{"number":1}'
    assert dict(headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"1",
        "ce_source": b"/shop",
        "ce_type": b"order.placed",
        "ce_time": b"2024-01-02T03:04:05Z",
        "ce_subject": "Grüße".encode(),
        "ce_traced": b"true",
        "content-type": b"application/json",
    }


def test_structured_mode() -> None:
    value, headers = sent(event({"number": 1}, traced=True), "structured")
    assert headers == [("content-type", JSON.encode())]
    assert value == (
        b'{"id":"1","source":"/shop","type":"order.placed","time":"2024-01-02T03:04:05Z",'
        b'"traced":true,"specversion":"1.0","data":{"number":1}}'
    )


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        (None, None, None),
        (b"\0\xff", "application/avro", b"\0\xff"),
        (bytearray(b"ab"), None, b"ab"),
        ("text", "text/plain", b"text"),
        ([1, "a"], "application/vnd.shop+json; charset=utf-8", b'[1,"a"]'),
        (7, None, b"7"),
    ],
)
def test_data_of_binary_mode(data: Any, content_type: str | None, expected: bytes | None) -> None:
    given = {} if content_type is None else {"datacontenttype": content_type}
    value, _ = sent(event(data, **given), "binary")
    assert value == expected


def test_an_event_without_data_is_no_tombstone_in_structured_mode() -> None:
    value, _ = sent(event(), "structured")
    assert value is not None


@pytest.mark.parametrize("mode", MODES)
def test_objects_that_are_no_json(mode: CloudEventMode) -> None:
    with pytest.raises(SerializationError, match="a dict with the content type 'text/xml'"):
        sent(event({"a": 1}, datacontenttype="text/xml"), mode)


@pytest.mark.parametrize("mode", MODES)
def test_headers_of_an_earlier_event_are_replaced(mode: CloudEventMode) -> None:
    headers: RecordHeaders = [("CE_ID", b"old"), ("trace", b"1"), ("Content-Type", b"old")]
    CloudEventSerializer(mode).serialize("orders", event("a"), headers)
    assert headers[0] == ("trace", b"1")
    assert [value for _, value in headers].count(b"old") == 0


CONTENTS = (
    st.none()
    | st.binary(min_size=1).filter(lambda data: not readable(data))
    | st.dictionaries(st.text(), st.integers() | st.text())
)


def readable(data: bytes) -> bool:
    try:
        return bool(data.decode()) or True
    except UnicodeDecodeError:
        return False


@given(CONTENTS, st.sampled_from(MODES), st.sampled_from([CloudEvent, CloudEventV03]))
def test_the_package_reads_both_modes_and_both_versions(
    data: Any, mode: CloudEventMode, version: Any
) -> None:
    made = version({"id": "1", "source": "/shop", "type": "order.placed"}, data)
    value, headers = sent(made, mode)
    theirs = from_kafka(
        KafkaMessage({name: text or b"" for name, text in headers}, None, value or b""),
        JSONFormat(),
    )
    ours = CloudEventDeserializer().deserialize("orders", value, headers)
    for read in (theirs, ours):
        assert type(read) is version
        assert read is not None
        assert read.get_data() == data
        attributes = read.get_attributes()
        attributes.pop("datacontentencoding", None)
        assert attributes == made.get_attributes()


def test_the_content_type_tells_the_mode() -> None:
    """A structured event may have the headers of binary mode, too."""
    value, headers = sent(event("inside"), "structured")
    reader = CloudEventDeserializer()
    read = reader.deserialize("orders", value, [*headers, ("ce_id", b"other"), ("null", None)])
    assert read is not None
    assert (read.get_id(), read.get_data()) == ("1", "inside")
    unmarked = reader(value)
    assert unmarked is not None
    assert unmarked.get_id() == "1"


def test_tombstones() -> None:
    reader = CloudEventDeserializer()
    assert reader.deserialize("orders", None) is None
    value, headers = sent(event(), "binary")
    read = reader.deserialize("orders", value, headers)
    assert read is not None
    assert read.get_data() is None


@pytest.mark.parametrize(
    ("data", "headers"),
    [
        (b"", []),
        (b"[]", []),
        (b"{}", [("content-type", JSON.encode())]),
        (b"[" * 100_000, []),
        (b"1", [("ce_id", b"\xff")]),
        (b"1", [("ce_id", b"1")]),
        (b"1", [("ce_time", b"noon")]),
    ],
)
def test_what_is_no_event(data: bytes, headers: Any) -> None:
    with pytest.raises(SerializationError, match="a record of topic 'orders' is not a CloudEvent"):
        CloudEventDeserializer().deserialize("orders", data, headers)


def test_what_is_no_event_is_not_sent() -> None:
    with pytest.raises(SerializationError, match=r"an event of cloudevents\.core, not a dict"):
        sent({"id": "1"}, "binary")


def test_usage() -> None:
    with pytest.raises(ConfigError, match="mode='batched' must be 'binary' or 'structured'"):
        CloudEventSerializer("batched")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="pass it as value_serializer"):
        Producer(bootstrap_servers="a:1", key_serializer=CloudEventSerializer())


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudevents.core.formats.json", None)
    for made in (CloudEventSerializer, CloudEventDeserializer):
        with pytest.raises(MissingExtraError, match=r"aioproducer\[cloudevents\]"):
            made()
