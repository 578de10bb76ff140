"""CRC-32C, the checksum of a batch.

The package ``crc32c`` imports a command line and its own version when it is imported, which takes
longer than all of ``records``. So its compiled module is loaded alone, where it is in its place.
"""

from __future__ import annotations

import sys
from importlib.machinery import ExtensionFileLoader, PathFinder
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c"]


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
        from crc32c import crc32c
