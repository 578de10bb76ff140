"""The metrics as a broker takes them: compressed, and not larger than it allows. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from aioproducer.engine.records.compression import Compression, compression
from aioproducer.engine.telemetry.otlp import metrics_data
from aioproducer.foundation.codecs import is_loaded
from aioproducer.foundation.version import __version__

__all__ = ["UNCOMPRESSED", "Payload", "fitting", "first_available"]

UNCOMPRESSED: Final = 0
"""The number of the codec that changes nothing."""

_NAMES: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
"""Kafka's numbers of the codecs."""

_SCOPE: Final = ("aioproducer", __version__)


class Payload(NamedTuple):
    """The content of a push."""

    compression_id: int
    data: bytes
    left_out: tuple[str, ...]
    """The groups of metrics for which there was no room."""


def first_available(accepted: Iterable[int], refused: Collection[int]) -> Compression | None:
    """The first codec of ``accepted`` that is loaded and not in ``refused``; None: no codec.

    A broker names the codecs in the order of its preference. Numbers that are no codec are
    skipped, and so are codecs whose library would have to be imported.
    """
    for number in accepted:
        if number == UNCOMPRESSED:
            return None
        name = _NAMES.get(number)
        if name is not None and number not in refused and is_loaded(name):
            return compression(name)
    return None


def fitting(
    groups: Mapping[str, bytes],
    resource: Mapping[str, str],
    codec: Compression | None,
    limit: int,
) -> Payload | None:
    """A payload of at most ``limit`` bytes; None: not even the first group fits.

    The groups are left out from the last one on: those of thousands of topics or partitions come
    before those of the client itself.
    """
    names = list(groups)
    while names:
        data = metrics_data(resource, _SCOPE, (groups[name] for name in names))
        if codec is not None:
            data = codec.compress(memoryview(data))
        if len(data) <= limit:
            number = UNCOMPRESSED if codec is None else codec.id
            return Payload(number, data, tuple(groups)[len(names) :])
        names.pop()
    return None
