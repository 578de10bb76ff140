"""What is written here is read by other clients' record parsers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import cramjam
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources, in kafka-python
    import kafka.codec  # type: ignore[import-untyped]


class _Snappy:
    """What kafka-python needs of python-snappy, which is itself a shell around cramjam."""

    @staticmethod
    def compress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    @staticmethod
    def decompress(data: bytes) -> bytes:
        return bytes(cramjam.snappy.decompress_raw(data))


@pytest.fixture(autouse=True, scope="session")
def _snappy_for_kafka_python() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka.codec, "snappy", _Snappy)
        yield
