"""Values in error messages: their type, and as much of them as a line holds."""

from __future__ import annotations

from reprlib import Repr
from typing import Any, Final

_LONGEST: Final = 80

_repr = Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 60
_repr.maxlevel = 2
_repr.maxdict = _repr.maxlist = _repr.maxtuple = 4


def shown(value: Any) -> str:
    """The type of ``value`` and its beginning."""
    if value is None:
        return "None"
    try:
        text = _repr.repr(value)
    except Exception:  # an object whose repr() fails is still to be named
        text = ""
    if len(text) > _LONGEST:
        text = text[:_LONGEST] + "…"
    return f"{type(value).__name__} {text}".rstrip()
