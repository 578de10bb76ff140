"""The optional packages of the formats, imported where they are used."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Final

from aioproducer.errors import MissingExtraError

_PACKAGES: Final = {
    "fastavro": "Avro needs the package fastavro",
    "jsonschema_rs": "JSON Schema needs the package jsonschema-rs",
    "google": "Protobuf needs the package protobuf",
}


def needed(name: str) -> ModuleType:
    """Import a module of an optional package, or raise MissingExtraError."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingExtraError(
            f"{_PACKAGES[package]}: pip install 'aioproducer[schema-registry]'"
        ) from error
