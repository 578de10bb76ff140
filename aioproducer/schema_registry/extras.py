"""The optional packages of the formats, imported where they are used."""
# ruff: noqa: F401

from __future__ import annotations

import sys
from types import ModuleType
from typing import Final

from aioproducer.errors import MissingExtraError

_PACKAGES: Final = {
    "fastavro": "Avro needs the package fastavro",
    "jsonschema_rs": "JSON Schema needs the package jsonschema-rs",
    "google": "Protobuf needs the package protobuf",
}


def needed(name: str) -> ModuleType:
    """Import a module of an optional package, or raise MissingExtraError.

    All modules of the package that are ever used are imported together, so that a serializer
    imports nothing later.
    """
    package = name.partition(".")[0]
    try:
        match package:  # statements, which tools that pack a program look for
            case "fastavro":
                import fastavro.read
                import fastavro.write
            case "jsonschema_rs":
                import jsonschema_rs
            case "google":
                import google.protobuf.descriptor_pb2  # type: ignore[import-untyped]
                import google.protobuf.descriptor_pool  # type: ignore[import-untyped]
                import google.protobuf.json_format  # type: ignore[import-untyped]
                import google.protobuf.message_factory  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtraError(
            f"{_PACKAGES[package]}: pip install 'aioproducer[schema-registry]'"
        ) from error
    return sys.modules[name]
