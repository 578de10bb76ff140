"""The applications that are measured, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

TOPIC: Final = "orders"
PARTITIONS: Final = 12
NULL: Final = "null"
"""The application that answers without sending."""
OURS: Final = "aioproducer"
CLIENTS: Final = (OURS, "aiokafka", "confluent-aio")
FRAMEWORKS: Final = ("starlette", "fastapi", "litestar", "aiohttp", "django")


@dataclass(frozen=True, slots=True)
class App:
    """One application."""

    framework: str
    client: str
    """A name of `CLIENTS`, or `NULL`."""

    @property
    def arguments(self) -> tuple[str, str]:
        """The names of its modules: framework and client."""
        return self.framework, self.client.replace("-", "_")


@dataclass(frozen=True, slots=True)
class Step:
    """One run: an application under a number of connections."""

    app: App
    connections: int
    round: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. Times are seconds, of each run."""

    frameworks: Sequence[str]
    clients: Sequence[str]
    connections: Sequence[int]
    rounds: int
    seconds: int
    warm_up: int

    def apps(self, framework: str) -> list[App]:
        """The null app first."""
        return [App(framework, client) for client in (NULL, *self.clients)]

    def steps(self) -> Iterator[Step]:
        """Interleaved: each application in turn for each number of connections.

        Each turn begins with another application, so nobody always follows the same one.
        """
        for number in range(1, self.rounds + 1):
            for connections in self.connections:
                for framework in self.frameworks:
                    apps = self.apps(framework)
                    first = (number - 1) % len(apps)
                    for app in (*apps[first:], *apps[:first]):
                        yield Step(app, connections, number)
