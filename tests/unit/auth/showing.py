"""Everything that a log, a debugger or an error tracker could show of an object or an error."""

from __future__ import annotations

import traceback


def shown(thing: object) -> str:
    """``str``, ``repr`` and format, and the same of every attribute, however it is kept."""
    attributes = [*getattr(thing, "__dict__", {})]
    for kind in type(thing).__mro__:
        attributes += getattr(kind, "__slots__", ())
    values = [getattr(thing, name) for name in attributes if hasattr(thing, name)]
    return "\n".join(f"{each!s} {each!r} {each}" for each in [thing, *values])


def shown_of_error(error: BaseException) -> str:
    """The traceback with the variables of its frames, and the errors before it with theirs."""
    lines: list[str] = []
    while True:
        with_variables = traceback.TracebackException.from_exception(error, capture_locals=True)
        lines += [*with_variables.format(), repr(error.args)]
        before = error.__cause__ or error.__context__
        if before is None:
            return "\n".join(lines)
        error = before
