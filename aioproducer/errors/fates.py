"""What can become of what a broker answers with an error."""

from __future__ import annotations

from enum import Enum


class Fate(Enum):
    """What an error code means for the batch, the topic or the request that got it."""

    RETRIABLE = "retriable"
    """It may pass: the same again after a backoff, until ``delivery_timeout_ms``."""
    DELIVERED = "delivered"
    """The batch was written before."""
    TOO_LARGE = "too large"
    """A batch of several records is split and sent again; a single record is refused."""
    MISNUMBERED = "misnumbered"
    """Its sequence number does not fit: again, under new numbers if an earlier batch is missing."""
    REFUSED = "refused"
    """The batch fails, and others go on."""
    TOPIC_REFUSED = "topic refused"
    """The same, and whoever waits to know the topic fails at once."""
    ABORTABLE = "abortable"
    """The batch fails, and a transaction that it is part of could only be aborted."""
    FATAL = "fatal"
    """The producer itself is refused: everything that has no fate yet fails with it."""
    UNSUPPORTED = "unsupported"
    """The broker does not speak this version of the request: a lower one, or it fails."""
    REBOOTSTRAP = "rebootstrap"
    """The cluster is to be looked for anew, from ``bootstrap_servers``."""


class Written(Enum):
    """What an error says about whether the batch is in the log."""

    NO = "no"
    """This attempt wrote nothing; an earlier one may have."""
    MAYBE = "maybe"
    """This attempt may have written it."""
