"""JSON of a peer or a file, as far as it is an object."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_object"]


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """The object in ``text``; None: it is no JSON, or JSON of another kind."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None
