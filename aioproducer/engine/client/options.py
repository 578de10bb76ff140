"""The configuration of a client that is no producer. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from aioproducer.config import ProducerConfig
from aioproducer.config.names import belongs_to_consumers
from aioproducer.config.producer_config import configuration
from aioproducer.errors import ConfigError

OF_PRODUCERS: Final = frozenset(
    {
        "acks",
        "batch_size",
        "buffer_memory",
        "client_rack",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "enable_idempotence",
        "enable_metrics_push",
        "interceptor_classes",
        "key_serializer",
        "linger_ms",
        "max_request_size",
        "on_failed",
        "partitioner",
        "partitioner_adaptive_partitioning_enable",
        "partitioner_availability_timeout_ms",
        "partitioner_ignore_keys",
        "partitioner_rack_aware",
        "retries",
        "transaction_timeout_ms",
        "transactional_id",
        "value_serializer",
    }
)
"""The options that only concern producers."""
_DESERIALIZER: Final = "keys and values are bytes, decode them in your loop or handler"
_INSTEAD: Final[Mapping[str, str]] = {
    "default_api_timeout_ms": "use max_block_ms",
    "enable_auto_commit": "use auto_commit",
    "key_deserializer": _DESERIALIZER,
    "max_poll_records": "leave it out, lists(max_records=...) has the number",
    "value_deserializer": _DESERIALIZER,
}
"""Options of other consumers, with the advice for each, to one who makes a Consumer."""
_OF_MEMBERS: Final = frozenset({"auto_commit", "enable_auto_commit", "group_id"})


def client_config(
    config: ProducerConfig | None,
    options: Mapping[str, Any],
    name: str,
    also: Collection[str] = (),
) -> ProducerConfig:
    """The configuration by the arguments of a client's constructor; ``name``: the client's class.

    ``also``: options of producers that this client has as well.

    The caller has hidden secrets in both: they are in its frame, too.

    A ``config`` may be shared with a producer, so its options for producers are ignored. Such an
    option as a keyword is a mistake. Raises :class:`ConfigError`.
    """
    refuse_misplaced(options, name, also)
    return configuration(config, options, name)


def refuse_misplaced(options: Mapping[str, Any], name: str, also: Collection[str]) -> None:
    """Raise :class:`ConfigError` for keywords that only concern producers or other consumers."""
    misplaced = sorted(OF_PRODUCERS.intersection(options).difference(also))
    if misplaced:
        raise ConfigError(
            f"{', '.join(misplaced)}: {name}() has no such option, a Producer has; leave it out"
        )
    for each in sorted(options):
        if belongs_to_consumers(each) or each in _OF_MEMBERS:
            advice = _INSTEAD.get(each, "leave it out") if name == "Consumer" else _elsewhere(each)
            raise ConfigError(f"{name}() has no option {each!r}: {advice}")


def _elsewhere(name: str) -> str:
    """The advice to one who makes a Reader or an Admin."""
    if name in _OF_MEMBERS or name.startswith(("group_", "heartbeat_", "max_poll_")):
        return "only a member of a group has it, a Consumer"
    return _INSTEAD.get(name, "leave it out")
