"""The optional packages of the formats, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from aioproducer.errors import MissingExtraError

_PACKAGES: Final = {
    "fastavro": "Avro needs the package fastavro",
    "fastavro.write": "Avro needs the package fastavro",
    "jsonschema_rs": "JSON Schema needs the package jsonschema-rs",
    "google.protobuf": "Protobuf needs the package protobuf",
    "google.protobuf.descriptor_pb2": "Protobuf needs the package protobuf",
    "google.protobuf.descriptor_pool": "Protobuf needs the package protobuf",
    "google.protobuf.message_factory": "Protobuf needs the package protobuf",
}


def needed(name: str) -> ModuleType:
    """Import a package, or raise MissingExtraError."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(
            f"{_PACKAGES[name]}: pip install 'aioproducer[schema-registry]'"
        ) from error
