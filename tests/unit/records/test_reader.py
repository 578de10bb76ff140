"""What a builder wrote is read back as it was appended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.records.builder import RecordsBuilder
from aioproducer.engine.records.field_reader import WrittenRecord, read_records

OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
RECORDS = st.builds(
    WrittenRecord,
    st.integers(0, 2**62),
    OPTIONAL_BYTES,
    OPTIONAL_BYTES,
    st.lists(st.tuples(st.text(max_size=20), OPTIONAL_BYTES), max_size=3).map(tuple),
)


@given(st.lists(RECORDS, max_size=100))
def test_what_was_appended_comes_back(records: list[WrittenRecord]) -> None:
    builder = RecordsBuilder(bytearray(1_000_000), 1_000_000)
    for record in records:
        assert builder.append(object(), *record)
    assert list(read_records(builder)) == records


def test_many_records_of_one_shape() -> None:
    builder = RecordsBuilder(bytearray(1_000_000), 1_000_000)
    records = [WrittenRecord(5, b"k%05d" % n, b"v%05d" % n, ()) for n in range(10_000)]
    for record in records:
        assert builder.append(object(), *record)
    assert list(read_records(builder)) == records
