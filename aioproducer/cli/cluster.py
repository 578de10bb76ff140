"""``aioproducer cluster``: its brokers, racks, features and versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from aioproducer.admin import Admin, BrokerDescription, ClusterDescription
from aioproducer.cli import exit_codes
from aioproducer.cli.admin_call import call_admin
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Json,
    Properties,
    Timeout,
    Verbose,
)
from aioproducer.cli.results import broker_fields, cluster_lines, print_result

__all__ = ["cluster", "fields", "lines"]

HELP = f"""\
Show the brokers of a cluster with their racks, and the features it supports.
{exit_codes("the cluster was described", "it was not; standard error shows the reason")}

\b
Example:
  aioproducer cluster -b localhost:9092 --versions
"""


def cluster(
    bootstrap_servers: BootstrapServers = None,
    versions: Annotated[
        bool,
        typer.Option("--versions", help="Ask each broker for the versions of its requests."),
    ] = False,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    async def describe(admin: Admin) -> ClusterDescription:
        return await admin.describe_cluster(versions=versions, timeout=timeout)

    found = call_admin(describe, bootstrap_servers, properties, command_config, verbose)
    print_result(fields(found), lines(found), as_json=as_json)
    return 0


cluster.__doc__ = HELP


def fields(found: ClusterDescription) -> dict[str, Any]:
    """The description, as JSON has it."""
    return {
        "cluster_id": found.cluster_id,
        "controller": found.controller,
        "brokers": [_broker_fields(broker) for broker in found.brokers],
        "features": dict(sorted(found.features.items())),
    }


def lines(found: ClusterDescription) -> Iterator[str]:
    """The description, a name and a value in each line."""
    yield from cluster_lines(found.cluster_id, found.brokers, found.features)
    if found.controller is not None:
        yield f"controller   {found.controller}"
    for broker in found.brokers:
        for name, (lowest, highest) in sorted((broker.versions or {}).items()):
            yield f"versions     {broker.id} {name} {lowest}-{highest}"


def _broker_fields(broker: BrokerDescription) -> dict[str, Any]:
    found = broker_fields(broker)
    if broker.versions is not None:
        found["versions"] = {name: list(bounds) for name, bounds in sorted(broker.versions.items())}
    return found
