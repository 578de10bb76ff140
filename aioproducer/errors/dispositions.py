"""The dispositions of a batch, topic or request that a broker answers with an error code."""

from __future__ import annotations

from enum import Enum


class Disposition(Enum):
    """The producer's reaction to an error code, for a batch, a topic or a request."""

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
    """The broker refuses the producer itself: every record without outcome fails."""
    UNSUPPORTED = "unsupported"
    """The broker does not speak this version of the request: use a lower one, or fail."""
    REBOOTSTRAP = "rebootstrap"
    """The client finds the cluster again, from ``bootstrap_servers``."""


class Written(Enum):
    """An error's statement about the attempt to write the batch."""

    NO = "no"
    """This attempt wrote nothing; an earlier one may have."""
    MAYBE = "maybe"
    """This attempt may have written it."""
