"""The errors of a schema registry."""

from __future__ import annotations

from aioproducer.errors.client import ProducerError

__all__ = [
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "SchemaNotFoundError",
    "SchemaRegistryAuthenticationError",
    "SchemaRegistryError",
    "SchemaRegistryUnavailableError",
]


class SchemaRegistryError(ProducerError):
    """A schema registry refused a request, or its response can't be used.

    ``url`` is the request's address, without credentials. ``status`` is the response's HTTP status,
    and ``error_code`` is the registry's own error number, such as 40401; both are None if there was
    none.
    """

    def __init__(
        self,
        message: str = "",
        *,
        url: str | None = None,
        status: int | None = None,
        error_code: int | None = None,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.status = status
        self.error_code = error_code


class SchemaRegistryUnavailableError(SchemaRegistryError, ConnectionError):
    """No registry could be reached, or none answered in time. A later call may succeed.

    This also covers a registry that still answers with status 429 or 5xx after the last retry.
    """

    retriable = True


class SchemaRegistryAuthenticationError(SchemaRegistryError):
    """The registry does not accept the credentials, or they do not permit the request (401, 403),
    or its certificate can't be trusted."""


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema is not compatible with earlier versions of the subject (409); the message comes
    from the registry."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such subject, version or schema (404)."""


class InvalidSchemaError(SchemaRegistryError):
    """The registry can't parse the schema, or refuses an argument of the request (422)."""
