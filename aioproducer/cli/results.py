"""The result of a command on standard output: lines to read, or one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import typer

from aioproducer.cli.early_ends import output_may_close
from aioproducer.errors import ConfigError
from aioproducer.errors.client import shown

__all__ = ["Broker", "broker_fields", "cluster_lines", "print_result", "require_output", "table"]


class Broker(Protocol):
    """A broker, as a Producer or an Admin describes it."""

    @property
    def id(self) -> int:
        """The broker's id."""

    @property
    def host(self) -> str:
        """The host of its address."""

    @property
    def port(self) -> int:
        """The port of its address."""

    @property
    def rack(self) -> str | None:
        """Its rack, if it has one."""


def require_output() -> None:
    """Raise ConfigError if standard output is closed, before a command does its work in vain."""
    if sys.stdout is None:
        raise ConfigError("standard output is closed")


def print_result(result: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print ``result`` as JSON in one line, or else ``lines``, as far as somebody reads them."""
    with output_may_close():
        for line in [json.dumps(result)] if as_json else map(shown, lines):
            typer.echo(line)


def broker_fields(broker: Broker) -> dict[str, Any]:
    """A broker, as JSON has it."""
    return {"id": broker.id, "host": broker.host, "port": broker.port, "rack": broker.rack}


def cluster_lines(
    cluster_id: str | None, brokers: Iterable[Broker], features: Mapping[str, int]
) -> Iterator[str]:
    """A cluster, a name and a value in each line."""
    yield f"cluster      {cluster_id or 'without an id'}"
    for broker in sorted(brokers, key=lambda each: each.id):
        rack = f", rack {broker.rack}" if broker.rack else ""
        yield f"broker       {broker.id} at {broker.host}:{broker.port}{rack}"
    for name, level in sorted(features.items()):
        yield f"feature      {name} {level}"


def table(rows: Sequence[tuple[str, ...]], indent: str = "  ") -> Iterator[str]:
    """Rows whose columns stand below each other."""
    safe = [tuple(map(shown, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*safe, strict=True)]
    for row in safe:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield indent + "  ".join(cells).rstrip()
