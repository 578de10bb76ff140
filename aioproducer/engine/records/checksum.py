"""CRC-32C, the checksum of a batch.

The package ``crc32c`` imports a command line and its own version when it is imported, which takes
longer than all of ``records``. So only its compiled module is loaded, if it is installed.
Without the package the checksum is computed in Python.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import ExtensionFileLoader, PathFinder
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c", "crc32c_in_python"]


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
    from crc32c import crc32c
else:
    try:
        crc32c = _compiled_module().crc32c
    except (ImportError, AttributeError):
        try:
            from crc32c import crc32c
        except ImportError:
            crc32c = crc32c_in_python
