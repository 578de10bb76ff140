"""The layout of a batch's header, magic 2 (KIP-98; ``DefaultRecordBatch``), and its CRC-32C.

The package ``crc32c`` imports a command line and its own version when it is imported, which takes
longer than all of ``records``. So only its compiled module is loaded, if it is installed.
Without the package the checksum is computed in Python.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import ExtensionFileLoader, PathFinder
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

BEFORE_CHECKSUM: Final = Struct(">qiibI")
"""Base offset, length, partition leader epoch, magic, CRC."""
CHECKED: Final = Struct(">hiqqqhii")
"""The part after the CRC, which covers it and the records: attributes, last offset delta, base and
max timestamp, producer id and epoch, base sequence, count."""

BATCH_OVERHEAD: Final = BEFORE_CHECKSUM.size + CHECKED.size
"""Bytes of a batch before its first record: 61."""

LENGTH_COUNTS_FROM: Final = 12
"""The length in the header leaves out the base offset and itself."""
MAGIC: Final = 2

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20


@cache
def _table_of_bytes() -> tuple[int, ...]:
    """The remainder of each byte by Castagnoli's polynomial, its bits reversed."""
    remainders = list(range(256))
    for _ in range(8):
        remainders = [each >> 1 ^ (0x82F63B78 if each & 1 else 0) for each in remainders]
    return tuple(remainders)


def crc32c_in_python(data: bytes | bytearray | memoryview, value: int = 0) -> int:
    """The checksum of ``data`` after data whose checksum is ``value``. Source: RFC 3720, B.4."""
    table = _table_of_bytes()
    value ^= 0xFFFFFFFF
    for byte in memoryview(data):
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _compiled_module() -> Any:
    """The module ``crc32c._crc32c`` without its package; None: it is not found."""
    package = None if "crc32c" in sys.modules else PathFinder.find_spec("crc32c")
    if package is None or package.submodule_search_locations is None:
        return None
    spec = PathFinder.find_spec("crc32c._crc32c", package.submodule_search_locations)
    if spec is None or not isinstance(spec.loader, ExtensionFileLoader):
        return None
    module = spec.loader.create_module(spec)
    spec.loader.exec_module(module)
    return module


if TYPE_CHECKING:
    from crc32c import crc32c as crc32c
else:
    try:
        crc32c = _compiled_module().crc32c
    except (ImportError, AttributeError):
        try:
            from crc32c import crc32c
        except ImportError:
            crc32c = crc32c_in_python
