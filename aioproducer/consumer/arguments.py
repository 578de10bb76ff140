"""Checks of what users give to a consumer. No I/O."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.consumer.options import ConsumerOptions
from aioproducer.engine.client.arguments import check_partition, checked_topic
from aioproducer.errors import ConfigError
from aioproducer.model import OffsetAndMetadata, TopicPartition

_HIGHEST_PARTITION: Final = 2**31 - 1
_HIGHEST_OFFSET: Final = 2**63 - 1


def check_group(group_id: Any, options: ConsumerOptions) -> None:
    """Raise :class:`ConfigError` for what no group takes."""
    if not isinstance(group_id, str) or not group_id.strip():
        raise ConfigError("group_id is the name of the group, a text that is not empty")
    if options.heartbeat_interval_ms * 3 > options.session_timeout_ms:
        raise ConfigError(
            "heartbeat_interval_ms has to be a third of session_timeout_ms at most: one lost "
            "heartbeat must not end the session"
        )


def checked_partition(given: Any) -> TopicPartition:
    """A partition that a request can name. Raises :class:`ConfigError`."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise ConfigError(f"a partition is a TopicPartition, not {given!r:.80}")
    topic, number = given
    check_partition(number, checked_topic(topic))
    if number > _HIGHEST_PARTITION:
        raise ConfigError(f"a partition is a number below 2**31, not {number}")
    return TopicPartition(topic, number)


def checked_offset(given: Any) -> OffsetAndMetadata:
    """An offset that a group can take. Raises :class:`ConfigError`."""
    at = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    for number, highest in ((at.offset, _HIGHEST_OFFSET), (at.leader_epoch or 0, 2**31 - 1)):
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= highest:
            raise ConfigError(f"an offset is an int, at least 0, not {given!r:.80}")
    if not isinstance(at.metadata, str):
        raise ConfigError(f"the metadata of an offset is a str, not {at.metadata!r:.80}")
    return at


def check_count(name: str, number: Any) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(f"{name} is an int, at least 1, not {number!r:.80}")
