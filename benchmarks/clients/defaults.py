"""Each client's own default settings: what a user gets who sets nothing.

The benchmarks add only what makes the clients alike: ``acks=all``, the codec of the workload, and
the hash of keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchmarks.clients import tuned
from benchmarks.clients.settings import Settings
from benchmarks.workloads import WORKLOADS

_ACKS: Settings = {"acks": "all"}


def _defaults(
    workloads: Iterable[str], alike: Settings, compression: str
) -> Mapping[str, Settings]:
    """``compression``: the option that names the codec."""
    codecs = {name: WORKLOADS[name].compression for name in workloads}
    return {
        name: alike if codec == "none" else {**alike, compression: codec}
        for name, codec in codecs.items()
    }


_MURMUR2: Settings = {**_ACKS, "partitioner": "murmur2_random"}

OURS = _defaults(tuned.OURS, {}, "compression_type")
OURS_BLOCKING = _defaults(tuned.OURS_BLOCKING, {}, "compression_type")
CONFLUENT = {
    **_defaults(tuned.CONFLUENT, _ACKS, "compression.type"),
    "keyed": _MURMUR2,
}
CONFLUENT_IDEMPOTENT = {
    name: {**settings, "enable.idempotence": True}
    for name, settings in CONFLUENT.items()
    if name in tuned.CONFLUENT_IDEMPOTENT
}
CONFLUENT_AIO = {
    **_defaults(
        # A lone record waits for a second, until others would have filled a batch of its own.
        (name for name in tuned.CONFLUENT_AIO if name != "single"),
        _ACKS,
        "compression.type",
    ),
    "keyed": _MURMUR2,
}
AIOKAFKA = _defaults(tuned.AIOKAFKA, _ACKS, "compression_type")
KAFKA_PYTHON = _defaults(tuned.KAFKA_PYTHON, {**tuned.API_VERSION, **_ACKS}, "compression_type")
JAVA = _defaults(tuned.JAVA, _ACKS, "compression.type")
