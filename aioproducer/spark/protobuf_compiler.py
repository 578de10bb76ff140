"""Protobuf schemas become descriptors, from which tasks make messages without a compiler."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from base64 import standard_b64encode
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import duration
from aioproducer.schema_registry.extras import needed
from aioproducer.schema_registry.protobuf.schema import file_of

_COMPILER: Final = "grpc_tools"
_SECONDS: Final = 60.0
_FILE: Final = "schema.proto"
_PATH: Final = r"[A-Za-z0-9_][\w./-]*\.proto"
"""Paths that are taken for files: none is an option of the compiler, or leads elsewhere."""


def descriptors(text: str, named: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """``text`` and the files that it imports as descriptors in base64.

    A schema that a registry has as text is compiled by ``protoc`` of the package ``grpcio-tools``.
    It blocks.

    Raises:
        ConfigError: the package is not installed, or it refuses the text.
    """
    if all(file_of(each) is not None for each in (text, *named.values())):
        return text, dict(named)
    if find_spec(_COMPILER) is None:
        raise ConfigError(
            "the registry returns the Protobuf schema as text, which a compiler must turn into a "
            "descriptor: pip install grpcio-tools, on the driver"
        )
    path = _FILE
    while path in named:
        path = f"_{path}"
    try:
        compiled = _compiled({**named, path: text})
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the Protobuf schema can't be compiled: {error}") from error
    return compiled[path], {each: compiled[each] for each in named}


def _compiled(files: Mapping[str, str]) -> dict[str, str]:
    """The descriptors of ``files``, texts by their paths."""
    for path in files:
        if not re.fullmatch(_PATH, path) or ".." in path:
            raise ConfigError(
                f"the Protobuf schema imports {path!r}, which is not the path of a file"
            )
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            place = Path(folder, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        output = Path(folder, "descriptors")
        _run(f"--proto_path={folder}", f"--descriptor_set_out={output}", *files)
        found = needed("google.protobuf.descriptor_pb2").FileDescriptorSet()
        found.ParseFromString(output.read_bytes())
    return {each.name: standard_b64encode(each.SerializeToString()).decode() for each in found.file}


def _run(*arguments: str) -> None:
    try:
        done = subprocess.run(
            # -P: no module of the working directory takes the compiler's place.
            [sys.executable, "-P", "-m", f"{_COMPILER}.protoc", *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"protoc has not ended within {duration(_SECONDS)}") from None
    if done.returncode:
        raise ConfigError(f"protoc refuses the Protobuf schema: {done.stderr.strip()[:1000]}")
