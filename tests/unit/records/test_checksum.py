"""The checksum of a batch in Python is that of the library."""

from __future__ import annotations

import subprocess
import sys

import crc32c as library
from hypothesis import example, given
from hypothesis.strategies import binary, integers

from aioproducer.engine.records.batch_header import crc32c, crc32c_in_python


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
