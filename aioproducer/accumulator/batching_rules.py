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
    """The longest linger of a batch while its broker is busy, if ``linger`` is None."""
    delivery_timeout: float
    one_at_a_time: bool = False
    """At most one batch of a partition is in flight: order without sequence numbers."""
    in_order: bool = True
    """Retries leave in their first order (they carry sequence numbers)."""
    ignore_keys: bool = False
    """Keyed records stick to a partition as keyless ones do."""
