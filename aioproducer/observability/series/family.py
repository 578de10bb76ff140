"""A family: all series of one metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

__all__ = ["Families", "Family", "Kind", "Sample", "printable"]

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


class Sample(NamedTuple):
    """The value of one series."""

    name: str
    """The family's name, with the suffix of the sample: ``_total``, ``_bucket``, ``_sum``."""
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """The series of a metric that differ by their labels."""

    name: str
    """A counter's name is without ``_total``."""
    kind: Kind
    meaning: str
    samples: list[Sample] = field(default_factory=list)


class Families:
    """Families by name, in the order of their first sample."""

    def __init__(self) -> None:
        self._by_name: dict[str, Family] = {}

    def __iter__(self) -> Iterator[Family]:
        return iter(self._by_name.values())

    def family(self, name: str, kind: Kind, meaning: str) -> Family:
        """The family of this name."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Family(name, kind, meaning)
        return found

    def add(
        self, name: str, kind: Kind, meaning: str, labels: Mapping[str, str], value: float
    ) -> None:
        """Add a sample of a counter or a gauge, unless its value is NaN: there is none yet."""
        if math.isnan(value):
            return
        suffix = "_total" if kind == "counter" else ""
        self.family(name, kind, meaning).samples.append(Sample(name + suffix, labels, value))

    def merge(self, families: Iterable[Family], labels: Mapping[str, str]) -> None:
        """Add the samples of ``families``, with ``labels`` in addition."""
        for each in families:
            samples = self.family(each.name, each.kind, each.meaning).samples
            samples.extend(
                Sample(name, {**own, **labels}, value) for name, own, value in each.samples
            )


def printable(label: str) -> str:
    """``label`` as UTF-8 can encode it; a lone surrogate becomes its escape."""
    return label.encode("utf-8", "backslashreplace").decode("utf-8")
