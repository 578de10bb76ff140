"""The number of values, their sum and the greatest of them."""

from __future__ import annotations

import math

__all__ = ["Summary"]


class Summary:
    """The number of values, their sum and the greatest of them."""

    __slots__ = ("_greatest", "count", "total")

    def __init__(self) -> None:
        self.count: int = 0
        self.total: float = 0
        self._greatest = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        if value > self._greatest:
            self._greatest = value

    def absorb(self, other: Summary) -> None:
        self.count += other.count
        self.total += other.total
        if other._greatest > self._greatest:
            self._greatest = other._greatest

    @property
    def mean(self) -> float:
        """NaN without values, as Kafka's ``Avg``."""
        return self.total / self.count if self.count else math.nan

    @property
    def max(self) -> float:
        """NaN without values, as Kafka's ``Max``."""
        return self._greatest if self.count else math.nan
