"""The log lines about changes of the cluster: brokers, and leaders that move."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from aioproducer.foundation.logs import RoomLogger

logger = RoomLogger("aioproducer.sender.refresher")

_SHOWN: Final = 10
"""The most brokers in a line."""


def shortened(brokers: Iterable[int]) -> str:
    """The ids in order; of many brokers the first ones and the number of others."""
    ids = sorted(brokers)
    rest = len(ids) - _SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(map(str, ids[:_SHOWN])) + more


def tell_moves(topic: str, moved: int) -> None:
    """Write a line about ``moved`` partitions of ``topic`` that have another leader."""
    if moved:
        logger.repeated(
            logging.INFO,
            "moves",
            "%d partition%s of topic %r ha%s another leader",
            moved,
            "" if moved == 1 else "s",
            topic,
            "s" if moved == 1 else "ve",
            topic=topic,
            partitions=moved,
        )
