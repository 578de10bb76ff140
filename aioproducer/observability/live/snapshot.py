"""The series of one moment, by producer. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from aioproducer.observability.series import Sample

__all__ = ["PREFIXES", "ProducerKey", "ProducerValues", "Snapshot"]

PREFIXES: Final = ("kafka_producer_", "aioproducer_")
"""The names of our series."""
_PLACES: Final = ("topic", "node", "le")
"""Labels of which a series has at most one, in addition to those of its producer."""


class ProducerKey(NamedTuple):
    """A producer among those of a server."""

    client_id: str
    pid: str = ""
    """The process; empty if a process only answers for itself."""

    def __str__(self) -> str:
        return f"{self.client_id} (pid {self.pid})" if self.pid else self.client_id


class ProducerValues:
    """The values of one producer, by the name of the series and its place."""

    def __init__(self) -> None:
        self._by_name: defaultdict[str, dict[str, float]] = defaultdict(dict)

    def put(self, name: str, place: str, value: float) -> None:
        """Note the value of a series."""
        self._by_name[name][place] = value

    def value(self, name: str, place: str = "") -> float | None:
        """The value of a series; None: there is none."""
        return self._by_name[name].get(place) if name in self._by_name else None

    def places(self, name: str) -> Mapping[str, float]:
        """The values of a name by topic, node or bucket."""
        return self._by_name.get(name, {})


class Snapshot:
    """The counts of producers at the time ``at``, in seconds of a monotonic clock."""

    def __init__(self, at: float, samples: Iterable[Sample]) -> None:
        self.at = at
        self._producers: defaultdict[ProducerKey, ProducerValues] = defaultdict(ProducerValues)
        for name, labels, value in samples:
            client_id = labels.get("client_id")
            if client_id is None or not name.startswith(PREFIXES):
                continue
            place = next((labels[label] for label in _PLACES if label in labels), "")
            key = ProducerKey(_shown(client_id), _shown(labels.get("pid", "")))
            self._producers[key].put(name, _shown(place), value)

    def __iter__(self) -> Iterator[tuple[ProducerKey, ProducerValues]]:
        return iter(sorted(self._producers.items()))

    def __len__(self) -> int:
        return len(self._producers)

    def get(self, key: ProducerKey) -> ProducerValues | None:
        """The values of a producer; None: it is not there."""
        return self._producers.get(key)


def _shown(text: str) -> str:
    """``text`` without characters that would control a terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)
