"""``aioproducer dashboard``: the dashboard for Grafana on standard output."""

from __future__ import annotations

from importlib.resources import files

import typer

from aioproducer.cli import exit_codes
from aioproducer.cli.early_ends import output_may_close
from aioproducer.cli.results import require_output

__all__ = ["dashboard"]

HELP = f"""\
Print a Grafana dashboard for the producer metrics in Prometheus.

Import the JSON in Grafana (Dashboards, New, Import), or put the file where Grafana's provisioning \
finds it. On import, choose your Prometheus.
{exit_codes("printed")}

\b
Example:
  aioproducer dashboard > aioproducer.json
"""


def dashboard() -> int:
    require_output()
    text = files("aioproducer.observability").joinpath("dashboard.json").read_text("utf-8")
    with output_may_close():
        typer.echo(text, nl=False)
    return 0


dashboard.__doc__ = HELP
