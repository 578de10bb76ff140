"""The libraries of the codecs: each is imported when its codec is used, so a platform may lack it.

lz4 and zstandard are default dependencies where they have wheels, and all are extras everywhere. A
client that reads imports all that are installed when it starts.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any, Final

from aioproducer.errors import MissingExtraError

__all__ = ["codec_library", "is_loaded", "load_codecs"]

_LIBRARIES: Final = {"snappy": "cramjam", "lz4": "lz4.frame", "zstd": "zstandard"}
"""The module by codec; ``gzip`` only needs the standard library."""


def codec_library(codec: str) -> Any:
    """The module that has ``codec``; None: the codec needs none.

    Raises:
        MissingExtraError: the module is not installed, or can't be loaded.
    """
    library: Any = None
    module = _LIBRARIES.get(codec)
    try:
        match module:  # an import statement for each: tools that pack a program look for these
            case "cramjam":
                import cramjam as library
            case "lz4.frame":
                import lz4.frame as library  # type: ignore[import-untyped,no-redef]
            case "zstandard":
                import zstandard as library
    except ImportError as error:
        raise MissingExtraError(
            f"the codec {codec} needs {str(module).partition('.')[0]}: "
            f"pip install 'aioproducer[{codec}]'"
        ) from error
    return library


def load_codecs() -> None:
    """Import every codec that is installed: a batch may have any of them."""
    for codec in _LIBRARIES:
        with suppress(MissingExtraError):
            codec_library(codec)


def is_loaded(codec: str) -> bool:
    """True if nothing has to be imported for ``codec``."""
    module = _LIBRARIES.get(codec)
    return module is None or sys.modules.get(module) is not None
