"""Docstrings of the API pages: Sphinx's roles, which the code uses, become Markdown.

The tables of attributes and methods show the first line of a docstring, so the first sentence
becomes one line. A field that is made by ``option()`` shows its default. A method that is made by
``blocking()`` shows the signature and docstring of the asynchronous one.
"""

from __future__ import annotations

import re
from copy import copy
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|meth|func|mod|data|attr|exc):`~?([^`<]+?)(?:\s*<[^`>]+>)?`")
_LITERAL = re.compile(r"(?m)^::$\n")
_COLONS = re.compile(r"(?m)::$")
_DRAWN = re.compile(r"(?m)^ +[│├└].*$")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])\s")


class Roles(griffe.Extension):
    """Replaces ``:class:`Name``` by code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        value = attr.value
        if isinstance(value, griffe.ExprCall) and str(value.function) == "option":
            attr.value = value.arguments[1]


class Blocking(griffe.Extension):
    """Replaces ``name = blocking(method)`` by ``method`` without its ``async``."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.path == "aioproducer":
            for name, member in [*pkg["sync.producer.Producer"].members.items()]:
                value = getattr(member, "value", None)
                if isinstance(value, griffe.ExprCall) and str(value.function) == "blocking":
                    made = copy(pkg[f"producer.Producer.{name}"])
                    made.labels = made.labels - {"async"}
                    pkg["sync.producer.Producer"].set_member(name, made)


def markdown(text: str) -> str:
    """A docstring without roles, and without the ``::`` before indented code."""
    text = _COLONS.sub(":", _LITERAL.sub("", _ROLE.sub(r"`\1`", text)))
    text = _DRAWN.sub(lambda line: line.group().replace("``", ""), text)
    return _with_first_sentence_on_a_line(text)


def _with_first_sentence_on_a_line(text: str) -> str:
    paragraph, blank, rest = text.partition("\n\n")
    if "\n    " in f"\n{paragraph}":
        return text  # a section, or code
    first, *others = _SENTENCE_ENDS.split(" ".join(paragraph.split()), maxsplit=1)
    return "\n".join((first, *others)) + blank + rest
