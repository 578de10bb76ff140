"""``python -m aioproducer.metrics``: the table of all metrics."""

from __future__ import annotations

import sys

from aioproducer.metrics.names import markdown

if __name__ == "__main__":
    sys.stdout.write(markdown())
