"""The dispositions of a batch, topic or request after an error code from a broker."""

from __future__ import annotations

from enum import Enum


class Disposition(Enum):
    """The producer's reaction to an error code, for a batch, a topic or a request."""

    RETRIABLE = "retriable"
    """The error may be temporary: retry after a backoff, until ``delivery_timeout_ms``."""
    DELIVERED = "delivered"
    """The batch was already written."""
    TOO_LARGE = "too large"
    """A batch of several records is split and sent again; a single record is refused."""
    MISNUMBERED = "misnumbered"
    """The sequence number is wrong: retry, with new numbers if an earlier batch is missing."""
    REFUSED = "refused"
    """The batch fails; others continue."""
    TOPIC_REFUSED = "topic refused"
    """The batch fails; others continue; callers that wait for the topic's metadata fail at once."""
    ABORTABLE = "abortable"
    """The batch fails; a transaction that contains it can only be aborted."""
    FATAL = "fatal"
    """The broker refuses the producer itself: all outstanding records fail; without a producer id,
    only the batch does."""
    UNSUPPORTED = "unsupported"
    """The broker does not support this version of the request: use a lower one, or fail."""
    REBOOTSTRAP = "rebootstrap"
    """The client locates the cluster again, from ``bootstrap_servers``."""


class Written(Enum):
    """An error's statement about the attempt to write the batch."""

    NO = "no"
    """This attempt wrote nothing; an earlier one may have."""
    MAYBE = "maybe"
    """This attempt may have written it."""
