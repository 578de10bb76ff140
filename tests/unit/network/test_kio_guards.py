"""kio's parser aborts the process for an array too long for the machine: it must not get there."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from aioproducer.engine.network import frames, kio_guards
from aioproducer.engine.network.apis import SUPPORTED, Api, response_type
from aioproducer.errors import ProtocolError

THROTTLE = bytes(4)


def compact(length: int) -> bytes:
    """The length of an array as flexible versions write it."""
    rest = length + 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def plain(length: int) -> bytes:
    return length.to_bytes(4, "big", signed=True)


@pytest.mark.parametrize("length", [2, 1000, 2**24, 2**31 - 1])
@pytest.mark.parametrize(
    ("api", "version", "before"),
    [
        pytest.param(Api.METADATA, 4, THROTTLE, id="brokers"),
        pytest.param(Api.METADATA, 13, THROTTLE, id="brokers, flexible"),
        pytest.param(Api.METADATA, 4, THROTTLE + plain(0) + b"\xff\xff" + plain(1), id="topics"),
        pytest.param(
            Api.METADATA, 13, THROTTLE + compact(0) + b"\0" + plain(1), id="topics, flexible"
        ),
        pytest.param(Api.API_VERSIONS, 0, b"\0\0", id="api keys"),
        pytest.param(Api.API_VERSIONS, 4, b"\0\0", id="api keys, flexible"),
        pytest.param(
            Api.API_VERSIONS, 4, b"\0\0" + compact(0) + THROTTLE + b"\1\0\5", id="in a tagged field"
        ),
        pytest.param(Api.PRODUCE, 7, b"", id="topics"),
        pytest.param(Api.PRODUCE, 13, b"", id="topics, flexible"),
        pytest.param(Api.PRODUCE, 7, plain(1) + b"\0\1t", id="partitions"),
        pytest.param(Api.PRODUCE, 13, compact(1) + bytes(16), id="partitions, flexible"),
        pytest.param(
            Api.PRODUCE, 13, compact(1) + bytes(16) + compact(1) + bytes(30), id="record errors"
        ),
    ],
)
def test_an_array_longer_than_the_rest_is_refused(
    api: Api, version: int, before: bytes, length: int
) -> None:
    kind: Any = response_type(api, version)
    announced = compact(length) if kind.__flexible__ else plain(length)
    with pytest.raises(ProtocolError, match=r"an array announces \d+ elements, but only \d"):
        kio_guards.walk(kind, before + announced + b"\0", 0)


def test_a_corrupt_response_does_not_end_the_process() -> None:
    """Without the check this very response takes 34 GB, or the process with it."""
    code = (
        "from aioproducer.engine.network import frames, apis\n"
        "body = bytes(9) + bytes.fromhex('ffffffff0f')\n"
        "try: frames.decode_response(apis.response_type(apis.Api.METADATA, 13), body)\n"
        "except frames.ProtocolError as error: print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "4294967294 elements" in ended.stdout


@pytest.mark.parametrize("version", range(SUPPORTED[Api.METADATA][0], 14))
def test_what_is_wrong_otherwise_is_left_to_the_decoder(version: int) -> None:
    kind: Any = response_type(Api.METADATA, version)
    for body in (b"", b"\0", b"\xff" * 3, bytes(200)):
        kio_guards.walk(kind, body, 0)
    with pytest.raises(ProtocolError):
        frames.decode_response(kind, bytes(5))


def test_a_null_array_is_none() -> None:
    kind: Any = response_type(Api.METADATA, 4)
    kio_guards.walk(kind, THROTTLE + plain(-1), 0)
