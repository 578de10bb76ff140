"""The checksum of a batch, and numbers of variable length, in Python."""

from __future__ import annotations

import subprocess
import sys

import crc32c as library
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import binary, integers

from aioproducer.engine.records.batch_header import crc32c, crc32c_in_python
from aioproducer.foundation.varint import encode_varint, varint


@given(binary(max_size=2_000), integers(0, 2**32 - 1))
@example(b"", 0)
@example(bytes(32), 0)
def test_the_checksum_is_that_of_the_library(data: bytes, value: int) -> None:
    expected = library.crc32c(data, value)
    assert crc32c_in_python(data, value) == expected
    assert crc32c_in_python(memoryview(bytearray(data)), value) == expected
    assert crc32c(data, value) == expected


def test_the_examples_of_iscsi() -> None:
    """Source: RFC 3720, B.4."""
    assert crc32c_in_python(bytes(32)) == 0x8A9136AA
    assert crc32c_in_python(b"\xff" * 32) == 0x62A8AB43
    assert crc32c_in_python(bytes(range(32))) == 0x46DD794E


def test_a_process_without_the_library_has_the_same_checksum() -> None:
    program = (
        "import sys; sys.modules['crc32c'] = None\n"
        "from aioproducer.engine.records.batch_header import crc32c, crc32c_in_python\n"
        "assert crc32c is crc32c_in_python\n"
        "print(crc32c(b'one espresso'))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) == library.crc32c(b"one espresso")


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
