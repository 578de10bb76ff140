"""The kinds of values of the options of security, beside those of ``kinds.py``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from aioproducer.config.kinds import Kind, UnacceptableError
from aioproducer.config.secret import MASK, Secret

__all__ = [
    "EndpointUrl",
    "Extensions",
    "Names",
    "Number",
    "Provider",
    "ProviderOption",
    "ProxyUrl",
    "SecretText",
    "SslContext",
]

ProviderOption: TypeAlias = Callable[[], Any] | str
"""A callable without arguments, async or not, or its import path ``package.module:function``."""

_IMPORT_PATH: Final = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_USER_INFO: Final = r"(?:[^/?#]*//)?[^/?#]*@"
_BARE_URL: Final = (
    r"[A-Za-z][A-Za-z0-9+.-]*:/*(?:\[[0-9A-Fa-f:.]*\]|[A-Za-z0-9._-]+)(?::[0-9]{0,5})?/?"
)
"""A URL without anything that may be a login, not even a damaged one."""
_LOGIN: Final = r"^([^/]*//)[^/]*@"
_QUERY: Final = r"(?s)([?#]).*"
_EXTENSION_NAME: Final = r"[A-Za-z]+"
_EXTENSION_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
"""Names and values are those of Kafka's ``OAuthBearerClientInitialResponse`` (RFC 7628)."""


class SecretText(Kind[Secret]):
    """A password, a key, or another text that is never shown."""

    secret = True
    wording = "a str"

    def accept(self, value: object) -> Secret:
        match value:
            case Secret():
                return value
            case str():
                return Secret(value)
        raise UnacceptableError(self.wording)


class Number(Kind[float]):
    """A number within a range, both ends included."""

    def __init__(self, minimum: float, maximum: float) -> None:
        self.minimum = minimum
        self.maximum = maximum

    def accept(self, value: object) -> float:
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and self.minimum <= value <= self.maximum
        ):
            return float(value)
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> float:
        try:
            return self.accept(float(text))
        except ValueError:
            raise UnacceptableError(self.wording) from None

    @property
    def wording(self) -> str:
        return f"a number from {self.minimum:g} to {self.maximum:g}"


class Names(Kind[tuple[str, ...]]):
    """A list of names; a ``str`` is split at its commas."""

    wording = "'NAME,NAME', or a sequence of names"

    def accept(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray, Mapping)):
            raise UnacceptableError(self.wording)
        items = value.split(",") if isinstance(value, str) else tuple(value)
        if not all(isinstance(item, str) for item in items):
            raise UnacceptableError(self.wording)
        return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


class Extensions(Kind[tuple[tuple[str, str], ...]]):
    """Names and values that go with a token; librdkafka's text form has ``name=value,…``."""

    wording = "a mapping of names (only letters) to printable texts, or 'name=value,name=value'"

    def accept(self, value: object) -> tuple[tuple[str, str], ...]:
        pairs = self._pairs(value)
        for name, text in pairs.items():
            if (
                not isinstance(name, str)
                or not isinstance(text, str)
                or not re.fullmatch(_EXTENSION_NAME, name)
                or not re.fullmatch(_EXTENSION_VALUE, text)
                or name == "auth"
            ):
                raise UnacceptableError(self.wording)
        return tuple(pairs.items())

    def _pairs(self, value: object) -> dict[Any, Any]:
        if isinstance(value, str):
            items = (item.partition("=") for item in value.split(",") if item.strip())
            return {name.strip(): text.strip() for name, _, text in items}
        try:
            return dict(value)  # type: ignore[call-overload,no-any-return]
        except (TypeError, ValueError):
            raise UnacceptableError(self.wording) from None


class SslContext(Kind[Any]):
    """An ``ssl.SSLContext``, known by its class's name: this room does not import ``ssl``."""

    wording = "an ssl.SSLContext"

    def accept(self, value: object) -> Any:
        for each in type(value).__mro__:
            if (each.__module__, each.__name__) == ("ssl", "SSLContext"):
                return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> Any:
        raise UnacceptableError(
            "no value in properties: pass it as a keyword, from_properties(…, ssl_context=…)"
        )


class Provider(Kind[ProviderOption]):
    """A source of secrets: a callable, or a reference to one that travels between processes."""

    wording = "a callable without arguments, or its import path 'package.module:function'"

    def accept(self, value: object) -> ProviderOption:
        if isinstance(value, str):
            if re.fullmatch(_IMPORT_PATH, value.strip()):
                return value.strip()
        elif callable(value):
            return value
        raise UnacceptableError(self.wording)

    def hides(self, value: object) -> bool:
        """True for all but callables and import paths: it may be the secret itself."""
        if isinstance(value, str):
            return not re.fullmatch(_IMPORT_PATH, value.strip())
        return value is not None and not callable(value)


class EndpointUrl(Kind[str]):
    """A URL that may be shown but for its query: some endpoints take a key there."""

    wording = "a URL without user name and password (client id and secret are options)"

    def accept(self, value: object) -> str:
        if isinstance(value, str) and value and not self.hides(value):
            return str(value)
        raise UnacceptableError(self.wording)

    def hides(self, value: object) -> bool:
        """True for a URL with a user name, or with a password, and for what is no ``str``."""
        if isinstance(value, str):
            return re.match(_USER_INFO, value) is not None
        return value is not None

    def shown(self, value: str) -> str:
        return repr(re.sub(_QUERY, rf"\g<1>{MASK}", value))


class ProxyUrl(Kind[Secret]):
    """The URL of a proxy, which may hold a login."""

    secret = True
    wording = (
        "'socks5h://host:port', 'socks5://host:port' or 'http://host:port', with user:password@ "
        "before the host if the proxy asks for a login"
    )

    def accept(self, value: object) -> Secret:
        from aioproducer.config.proxy_url import parse_proxy_url

        if not isinstance(value, Secret | str):
            raise UnacceptableError(self.wording)
        url = value if isinstance(value, Secret) else Secret(value)
        try:
            parse_proxy_url(url)
        except ValueError as error:
            raise UnacceptableError(str(error)) from None
        return url

    def hides(self, value: object) -> bool:
        """True for all but a URL that can't hold a login."""
        if isinstance(value, str):
            return not re.fullmatch(_BARE_URL, value)
        return value is not None

    def shown(self, value: Secret) -> str:
        """The URL with a mask in place of the login; the text that a placeholder gave as it is."""
        if isinstance(value, Secret):
            return repr(re.sub(_LOGIN, rf"\g<1>{MASK}@", value.reveal()))
        return repr(value)
