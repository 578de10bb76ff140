"""Quantiles from cumulative buckets, as ``histogram_quantile`` of Prometheus has them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

__all__ = ["quantile"]


def quantile(fraction: float, buckets: Mapping[float, float]) -> float:
    """The value that ``fraction`` of all values do not exceed, by interpolation in its bucket.

    ``buckets``: the number of values up to each upper bound; the greatest bound is infinity. NaN
    without values. A value above the last finite bound is treated as that bound.
    """
    bounds = sorted(buckets)
    if len(bounds) < 2 or bounds[-1] != math.inf or not buckets[math.inf] > 0:
        return math.nan
    rank = fraction * buckets[math.inf]
    lower, below = 0.0, 0.0
    for bound in bounds[:-1]:
        up_to = buckets[bound]
        if up_to >= rank and up_to > below:
            return lower + (bound - lower) * max(0.0, rank - below) / (up_to - below)
        lower, below = bound, max(below, up_to)
    return lower
