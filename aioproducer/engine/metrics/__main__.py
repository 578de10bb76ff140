"""``python -m aioproducer.engine.metrics``: the table of all metrics."""

from __future__ import annotations

import sys

from aioproducer.engine.metrics.names import markdown

if __name__ == "__main__":
    sys.stdout.write(markdown())
