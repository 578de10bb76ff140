"""Tokens, and a look for secrets in whatever an error keeps alive."""

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
