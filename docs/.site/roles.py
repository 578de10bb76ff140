"""Docstrings of the API pages: Sphinx's roles, which the code uses, become Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`]+)`")
_LITERAL = re.compile(r"(?m)^::$\n")


class Roles(griffe.Extension):
    """Replaces ``:class:`Name``` by code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """A docstring without roles, and without the lone ``::`` before indented code."""
    return _LITERAL.sub("", _ROLE.sub(r"`\1`", text))
