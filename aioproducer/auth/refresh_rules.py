"""The time at which a token is fetched anew, ahead of its end.

Source: Kafka's ``ExpiringCredentialRefreshConfig`` and ``ExpiringCredentialRefreshingLogin``.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["RefreshRules"]


@dataclass(frozen=True, slots=True)
class RefreshRules:
    """``sasl.login.refresh.*``, with Kafka's defaults."""

    window_factor: float = 0.8
    """The part of a token's lifetime after which it is fetched anew."""
    window_jitter: float = 0.05
    """The most that chance adds to the factor, so that clients don't ask all at once."""
    min_period: float = 60.0
    """Seconds between two fetches, at least."""
    buffer: float = 300.0
    """Seconds before the end at which the next token is there."""

    def refresh_at(self, now: float, expires: float, random: Random) -> float:
        """When to fetch the successor of a token that was fetched ``now``.

        Unlike in Kafka the lifetime counts from the fetch, not from the token's ``iat``: providers
        with a cache of their own give the token again whose end has not come.
        """
        lifetime = max(expires - now, 0.0)
        factor = self.window_factor + self.window_jitter * random.random()
        proposed = now + lifetime * factor
        if self.min_period + self.buffer > lifetime:
            return proposed
        if proposed > expires - self.buffer:
            return expires - self.buffer
        return max(proposed, now + self.min_period)
