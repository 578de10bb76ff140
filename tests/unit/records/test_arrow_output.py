"""Records that were read as Arrow columns: each row is its record, nulls included."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioproducer.engine.records import arrow
from aioproducer.engine.records.arrow import read_columns, to_arrow
from aioproducer.errors import MissingExtraError
from aioproducer.model import ConsumerRecord
from tests.support.encoded_batches import FORMS, LIMIT, NOW, batch, decoded, only_batch, record

pa: Any = pytest.importorskip("pyarrow")

HEADERS = [(b"a", b"1"), (b"a", None), ("größe".encode(), b""), (b"\xff", b"x")]
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
    ]
)


@pytest.fixture(params=FORMS.values(), ids=list(FORMS))
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(arrow, "arrow_buffers", request.param.arrow_buffers)
    return request.param


def parsed(form: Any, data: bytes, from_offset: int = 0) -> Any:
    encoded = only_batch(data)
    return form.ParsedRecords(encoded, encoded.decompressed(LIMIT), from_offset)


def rows(records: list[ConsumerRecord]) -> list[dict[str, Any]]:
    return [
        {
            "key": each.key,
            "value": each.value,
            "headers": [{"key": name, "value": value} for name, value in each.headers],
            "timestamp": None
            if each.timestamp_ms == -1
            else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=each.timestamp_ms),
            "partition": each.partition,
            "offset": each.offset,
        }
        for each in records
    ]


def check(columns: Any, records: list[ConsumerRecord]) -> None:
    columns.validate(full=True)
    assert columns.schema == SCHEMA
    assert columns.to_pylist() == rows(records)


PAYLOADS = [
    pytest.param([record(0)], id="one"),
    pytest.param([record(0, None), record(1, b"")], id="null and empty value"),
    pytest.param([record(0, key=b"k"), record(1, key=None), record(2, key=b"")], id="keys"),
    pytest.param([record(0, key=b"k"), record(1, key=b"kk")], id="no null"),
    pytest.param([record(0, None), record(1, None)], id="nulls alone"),
    pytest.param([record(0, headers=HEADERS), record(1), record(2, headers=HEADERS)], id="headers"),
    pytest.param([record(0, headers=[(b"a", b"1")])], id="plain header"),
    pytest.param([record(number, b"v" * number) for number in range(100)], id="many"),
    pytest.param([record(0, timestamp_delta=-5), record(1, timestamp_delta=9)], id="timestamps"),
]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_the_rows_are_the_records(form: Any, payload: list[bytes]) -> None:
    part = parsed(form, batch(b"".join(payload), len(payload), base_offset=2**40))
    check(to_arrow("flights", [part]), list(part))


def test_the_topic_is_in_the_metadata(form: Any) -> None:
    columns = to_arrow("flights", [parsed(form, batch(record(0)))])
    assert columns.schema.metadata == {b"topic": b"flights"}


def test_several_batches_together(form: Any) -> None:
    payloads: list[Any] = [each.values[0] for each in PAYLOADS]
    parts = [
        parsed(form, batch(b"".join(payload), len(payload), base_offset=100 * place))
        for place, payload in enumerate(payloads)
    ]
    check(to_arrow("flights", parts), [each for part in parts for each in part])


def test_rows_from_an_offset(form: Any) -> None:
    data = batch(record(0, b"no", b"no", HEADERS) + record(1, b"yes", headers=HEADERS), 2)
    part = parsed(form, data, 1)
    check(to_arrow("flights", [part]), list(part))
    assert len(part) == 1


def test_no_rows(form: Any) -> None:
    check(to_arrow("flights", []), [])
    check(to_arrow("flights", [parsed(form, batch(b"", 0, last_offset_delta=3))]), [])


def test_a_record_without_a_timestamp_is_null(form: Any) -> None:
    data = batch(record(0) + record(1, timestamp_delta=1 + NOW), 2, timestamps=(-1, NOW))
    columns = to_arrow("flights", [parsed(form, data)])
    assert columns["timestamp"].cast(pa.int64()).to_pylist() == [None, NOW]


def test_columns_of_batches_make_a_table(form: Any) -> None:
    parts = [
        to_arrow("flights", [parsed(form, batch(record(0), base_offset=offset))])
        for offset in (3, 9)
    ]
    assert pa.Table.from_batches(parts)["offset"].to_pylist() == [3, 9]


def test_send_many_takes_the_columns(form: Any) -> None:
    data = batch(record(0, b"v", b"k", HEADERS) + record(1, None), 2)
    (columns,) = read_columns(to_arrow("flights", [parsed(form, data)]))
    assert [columns.values[row] for row in range(2)] == [b"v", None]
    assert columns.keys is not None
    assert [columns.keys[row] for row in range(2)] == [b"k", None]
    assert columns.timestamps is not None
    assert [columns.timestamps[row] for row in range(2)] == [NOW, NOW]
    assert columns.partitions is not None
    assert [columns.partitions[row] for row in range(2)] == [3, 3]
    assert columns.headers is not None
    assert list(columns.headers[0] or ()) == list(decoded(data)[0].headers)
    assert not columns.headers[1]


few = st.none() | st.binary(max_size=5)
names = st.sampled_from([b"", b"a", b"name", "ü".encode(), b"\xff"]) | st.binary(max_size=4)


@given(
    st.lists(
        st.lists(
            st.tuples(
                few,
                few,
                st.just([]) | st.lists(st.tuples(names, few), max_size=3),
                st.sampled_from([0, 1, -1, -NOW - 1]),
            ),
            max_size=20,
        ),
        max_size=4,
    )
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_rows(form: Any, batches: list[list[Any]]) -> None:
    parts = [
        parsed(
            form,
            batch(
                b"".join(
                    record(delta, value, key, headers, timestamp_delta=timestamp)
                    for delta, (value, key, headers, timestamp) in enumerate(each)
                ),
                len(each),
                last_offset_delta=30,
                base_offset=40 * place,
            ),
        )
        for place, each in enumerate(batches)
    ]
    check(to_arrow("flights", parts), [each for part in parts for each in part])


def test_without_pyarrow(form: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pip install aioproducer\[arrow\]"):
        decoded(batch(record(0))).to_arrow()


def test_buffers_that_have_changed_are_noticed() -> None:
    """Memory that is read twice may be another's the second time: nothing is written beyond it."""
    if "compiled" not in FORMS:
        pytest.skip("the reference keeps no bytes")
    form = FORMS["compiled"]
    small, large = record(0, b"v" * 40, b"k" * 5), record(0, b"v" * 5, b"k" * 40)
    memory = bytearray(batch(small))
    encoded = only_batch(bytes(memory))
    payload = memoryview(memory)[61:]
    part = form.ParsedRecords(encoded, payload, 0)
    payload[:] = large
    with pytest.raises(RuntimeError, match="have changed"):
        form.arrow_buffers([part])
    payload[:] = b"\xff" * len(payload)
    with pytest.raises(RuntimeError, match="have changed"):
        list(part)
    with pytest.raises(RuntimeError, match="have changed"):
        form.arrow_buffers([part])
