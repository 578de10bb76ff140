"""The origin of a client, its arguments or its properties: secrets hidden, and fit for a pickle.

A pickle has the arguments with their secrets; of properties it has the placeholders, which are
resolved where it is loaded.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.config.producer_config import PropertiesSource, read_properties
from aioproducer.config.secret import Hidden, Secret
from aioproducer.errors import ConfigError
from aioproducer.schema_registry.rest.authentication import BearerToken, Credentials
from aioproducer.schema_registry.rest.http import HttpTransport, http_settings, http_transport
from aioproducer.schema_registry.rest.properties import property_text, registry_properties

__all__ = ["Arguments", "Asking", "Origin", "Properties"]


class Asking(NamedTuple):
    """The transport of a client, and the lifetime of its answers."""

    transport: HttpTransport
    latest_ttl: float


class Origin(Protocol):
    """Equal clients can be made of it, in another process, too."""

    def asking(self) -> Asking:
        """Raises ConfigError."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of :class:`~aioproducer.schema_registry.SchemaRegistry`."""

    urls: tuple[Secret, ...]
    username: str | None
    password: Secret | Hidden | None
    bearer_token: Secret | Callable[[], Any] | None
    ssl_context: ssl.SSLContext | None
    headers: Mapping[str, Secret] | Hidden
    timeout: float
    latest_ttl: float

    def asking(self) -> Asking:
        if isinstance(self.password, Hidden):
            raise ConfigError(f"password: expected a str, not {self.password.type_name}")
        if isinstance(self.headers, Hidden):
            raise ConfigError(f"headers: expected a mapping, not {self.headers.type_name}")
        credentials = Credentials(self.username, self.password, self.bearer_token)
        settings = http_settings(self.urls, credentials, self.headers, self.timeout)
        options = TlsOptions(context=self.ssl_context) if self.ssl_context else TlsOptions()
        if not self.latest_ttl >= 0:
            raise ConfigError("latest_ttl: the seconds can't be negative")
        return Asking(http_transport(settings, TlsContexts(options).get), self.latest_ttl)


@dataclass(frozen=True)
class Properties:
    """Properties by Java's names, as they are written."""

    values: Mapping[str, Secret]

    @classmethod
    def of(cls, source: PropertiesSource) -> Properties:
        """Raises ConfigError if a file can't be read."""
        given = source if isinstance(source, Mapping) else read_properties(source)
        return cls({name: property_text(each) for name, each in given.items()})

    def asking(self) -> Asking:
        found = registry_properties(self.values)
        return Asking(http_transport(found.http, found.tls, found.proxy), found.latest_ttl)


def hidden_urls(url: str | Sequence[str]) -> tuple[Secret, ...]:
    """The addresses in a list, or in a text with commas between them."""
    return tuple(Secret(str(each)) for each in (url.split(",") if isinstance(url, str) else url))


def hidden_headers(headers: Mapping[str, str] | None) -> dict[str, Secret] | Hidden:
    """The values of headers, not to be shown."""
    if headers is not None and not isinstance(headers, Mapping):
        return Hidden(type(headers).__name__)
    return {str(name): Secret(str(value)) for name, value in (headers or {}).items()}


def hidden_token(bearer_token: BearerToken | None) -> Secret | Callable[[], Any] | None:
    """A token that is a text, not to be shown; a function as it is."""
    if bearer_token is None or callable(bearer_token):
        return bearer_token
    return Secret(str(bearer_token))
