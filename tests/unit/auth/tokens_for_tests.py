"""Tokens, and what a log, a debugger or an error tracker could show of an object or an error."""

from __future__ import annotations

import base64
import json
import traceback
from types import TracebackType

NOW = 1_800_000_000.0


def jwt(claims: object, signature: str = "c2ln") -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"{header}.{payload}.{signature}"


def everything_in(error: BaseException) -> str:
    """Its text, that of its causes, their traceback, and the locals of every frame of our own."""
    told = list(traceback.format_exception(error))
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        told += [repr(one), str(one), repr(vars(one))]
        told += _locals(one.__traceback__)
        todo += [one.__cause__, one.__context__]
    return "\n".join(told)


def _locals(frames: TracebackType | None) -> list[str]:
    told = []
    while frames is not None:
        if "/aioproducer/" in frames.tb_frame.f_code.co_filename:
            told += [f"{name}={value!r}" for name, value in frames.tb_frame.f_locals.items()]
        frames = frames.tb_next
    return told


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
