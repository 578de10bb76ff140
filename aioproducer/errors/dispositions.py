"""The fates of a batch, topic or request that a broker answers with an error."""

from __future__ import annotations

from enum import Enum


class Disposition(Enum):
    """The meaning of an error code for the batch, the topic or the request that got it."""

    RETRIABLE = "retriable"
    """The error may pass: retry after a backoff, until ``delivery_timeout_ms``."""
    DELIVERED = "delivered"
    """The batch was written before."""
    TOO_LARGE = "too large"
    """A batch of several records is split and sent again; a single record is refused."""
    MISNUMBERED = "misnumbered"
    """The sequence number does not fit: retry, with new numbers if an earlier batch is missing."""
    REFUSED = "refused"
    """The batch fails, and others go on."""
    TOPIC_REFUSED = "topic refused"
    """The batch fails, others go on, and callers that wait to know the topic fail at once."""
    ABORTABLE = "abortable"
    """The batch fails, and a transaction that it is part of could only be aborted."""
    FATAL = "fatal"
    """The producer itself is refused: everything that has no fate yet fails with it."""
    UNSUPPORTED = "unsupported"
    """The broker does not speak this version of the request: use a lower one, or fail."""
    REBOOTSTRAP = "rebootstrap"
    """The cluster is to be looked for anew, from ``bootstrap_servers``."""


class Written(Enum):
    """An error's statement about the attempt to write the batch."""

    NO = "no"
    """This attempt wrote nothing; an earlier one may have."""
    MAYBE = "maybe"
    """This attempt may have written it."""
