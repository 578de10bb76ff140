"""The log lines about a transactional producer."""

from __future__ import annotations

import logging

from aioproducer.errors import ProducerError
from aioproducer.foundation.logs import RoomLogger
from aioproducer.model import TransactionHandle

logger = RoomLogger("aioproducer.transactions.manager")


def epoch_began(who: object, handle: TransactionHandle) -> None:
    """A coordinator assigned the producer id and the epoch of ``handle``."""
    logger.repeated(
        logging.INFO,
        "epoch",
        "%s: producer id %d with epoch %d was assigned",
        who,
        handle.producer_id,
        handle.epoch,
        transactional_id=handle.transactional_id,
        producer_id=handle.producer_id,
        epoch=handle.epoch,
    )


def failed_for_good(who: object, handle: TransactionHandle, error: ProducerError) -> None:
    """The producer can't continue."""
    logger.error(
        "%s: no further transaction is possible: %s",
        who,
        error,
        transactional_id=handle.transactional_id,
        error=error,
    )


def closed_after_failure(
    who: object, handle: TransactionHandle, error: ProducerError | None
) -> None:
    """The producer was closed when its transaction could only be aborted."""
    logger.error(
        "%s: closed when its transaction had failed: %s",
        who,
        error,
        transactional_id=handle.transactional_id,
        error=error,
    )


def state_changed(who: object, before: str, after: str) -> None:
    """The state machine went on."""
    if logger.debugs:
        logger.debug("%s: %s -> %s", who, before, after)
