from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.foundation.varint import encode_varint, varint


# Kafka's ByteUtilsTest.testCorrectnessWriteVarint / testVarlongSerde
@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (-65, "8101"),
        (8191, "fe7f"),
        (-8192, "ff7f"),
        (8192, "808001"),
        (-8193, "818001"),
        (1048575, "feff7f"),
        (1048576, "80808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
        (2**63 - 1, "feffffffffffffffff01"),
        (-(2**63), "ffffffffffffffffff01"),
    ],
)
def test_golden_values_of_kafka(number: int, encoded: str) -> None:
    assert encode_varint(number).hex() == encoded
    assert varint(number).hex() == encoded


@given(st.integers(-(2**63), 2**63 - 1))
def test_reads_back(number: int) -> None:
    encoded = encode_varint(number)
    assert varint(number) == encoded
    assert all(byte & 0x80 for byte in encoded[:-1])
    assert not encoded[-1] & 0x80
    raw = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded))
    assert (raw // 2 if raw % 2 == 0 else -(raw // 2) - 1) == number
