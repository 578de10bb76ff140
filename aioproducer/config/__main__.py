"""``python -m aioproducer.config [--write FILE]``: print or refresh the option tables."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from aioproducer.config import document
from aioproducer.errors import ConfigError


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, or 1 with a message when the file cannot be refreshed."""
    parser = argparse.ArgumentParser(
        prog="python -m aioproducer.config",
        description="Print the producer's options as Markdown tables.",
    )
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help=f"put them between {document.BEGIN} and {document.END} of FILE instead",
    )
    path: Path | None = parser.parse_args(arguments).write
    if path is None:
        sys.stdout.write(document.markdown())
        return 0
    try:
        document.write(path)
    except (ConfigError, OSError) as error:
        sys.stderr.write(f"{path}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
