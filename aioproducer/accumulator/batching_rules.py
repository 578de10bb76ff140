"""The options that decide how records are put together and leave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BatchingRules:
    """Sizes are bytes, times are seconds."""

    batch_size: int
    max_request_size: int
    linger: float | None
    """None: adaptive."""
    adaptive_linger: float
    """How long a batch grows at most, with adaptive linger, while its broker is busy."""
    delivery_timeout: float
    one_at_a_time: bool = False
    """At most one batch of a partition in flight, to keep order without sequence numbers."""
    in_order: bool = True
    """Retries leave in their first order (they carry sequence numbers)."""
    ignore_keys: bool = False
    """Keyed records stick as keyless ones do."""
