"""``python -m aioproducer.errors``: the table of brokers' error codes."""

from __future__ import annotations

import sys

from aioproducer.errors.document import markdown

if __name__ == "__main__":
    sys.stdout.write(markdown())
