"""The engine's numbers that only tune, drawn for a life: FoundationDB calls them knobs."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import exp, log
from random import Random
from typing import Final, NamedTuple

from aioproducer.foundation import tuning


class Knob(NamedTuple):
    """The least value of a number, and its usual one."""

    least: float
    usual: float


KNOBS: Final[Mapping[str, Knob]] = {
    name: Knob(typing.get_args(hint)[1], getattr(tuning, name))
    for name, hint in typing.get_type_hints(tuning, include_extras=True).items()
}
_USUAL_SHARE: Final = 0.4
_LEAST_SHARE: Final = 0.25
_WIDEST: Final = 0.05
"""Of numbers with a least value of 0, which have no logarithm: the part of the usual value that
the others are drawn from."""


def drawn_knobs(random: Random) -> dict[str, float]:
    """The numbers of a life that are not as usual: the least value, or one up to the usual."""
    found: dict[str, float] = {}
    for name, (least, usual) in KNOBS.items():
        kind = random.random()
        if kind < _USUAL_SHARE:
            continue
        if kind < _USUAL_SHARE + _LEAST_SHARE:
            found[name] = least
            continue
        lowest = least or usual * _WIDEST
        value = exp(random.uniform(log(lowest), log(usual)))
        found[name] = round(value) if isinstance(usual, int) else value
    return found


@contextmanager
def tuned(values: Mapping[str, float]) -> Iterator[None]:
    """Run the block with these numbers in the engine."""
    before = {name: getattr(tuning, name) for name in values}
    for name, value in values.items():
        setattr(tuning, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(tuning, name, value)
