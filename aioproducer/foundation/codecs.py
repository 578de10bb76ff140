"""The libraries of the codecs: each is imported when its codec is used, so a platform may lack it.

They are default dependencies where they have wheels, and extras everywhere.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from aioproducer.errors import MissingExtraError

__all__ = ["codec_library"]

_LIBRARIES: Final = {"snappy": "cramjam", "lz4": "cramjam", "zstd": "zstandard"}
"""The module by codec; ``gzip`` only needs the standard library."""


def codec_library(codec: str) -> Any:
    """The module that has ``codec``; None: the codec needs none.

    Raises:
        MissingExtraError: the module is not installed, or can't be loaded.
    """
    module = _LIBRARIES.get(codec)
    if module is None:
        return None
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"the codec {codec} needs {module}: pip install 'aioproducer[{codec}]'"
        ) from error
