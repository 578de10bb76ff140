"""The result of a command on standard output: lines to read, or one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import typer

from aioproducer.model import Node

__all__ = ["node_fields", "print_result"]


def print_result(result: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print ``result`` as JSON in one line, or else ``lines``."""
    if as_json:
        typer.echo(json.dumps(result))
        return
    for line in lines:
        typer.echo(line)


def node_fields(node: Node) -> dict[str, Any]:
    """A broker, as JSON has it."""
    return {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack}
