"""The errors of a schema registry carry the response's facts, and survive copies."""

from __future__ import annotations

import pickle

import pytest

from aioproducer import errors
from aioproducer.errors import SchemaRegistryError, SchemaRegistryUnavailableError

CLASSES = [
    SchemaRegistryError,
    SchemaRegistryUnavailableError,
    errors.SchemaRegistryAuthenticationError,
    errors.IncompatibleSchemaError,
    errors.SchemaNotFoundError,
    errors.InvalidSchemaError,
]


@pytest.mark.parametrize("error_class", CLASSES)
def test_the_facts_survive_a_copy(error_class: type[SchemaRegistryError]) -> None:
    error = error_class("no", url="http://registry/subjects", status=404, error_code=40401)
    for twin in (errors.anew(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is error_class
        assert str(twin) == "no"
        assert (twin.url, twin.status, twin.error_code) == ("http://registry/subjects", 404, 40401)


def test_a_registry_that_is_away_is_a_connection_error() -> None:
    assert issubclass(SchemaRegistryUnavailableError, ConnectionError)
    assert [each for each in CLASSES if each.retriable] == [SchemaRegistryUnavailableError]
