"""The kinds of values: one small class per kind, each with check, text form and wording.

In their order: durations (KIP-1106), the names of Kafka's own serializers, the kinds of plain
values, those of the user's own code (partitioner, serializers, interceptors, the hook for failed
records), and those of security. The kinds of user code only check the outer shape;
``engine/partitioning.py``, ``serialization/``, ``engine/interceptors.py`` and
``engine/core/failures.py`` have the contracts of the objects.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    get_args,
)

from aioproducer.config.addresses import NO_CREDENTIALS, Address, parse_addresses
from aioproducer.foundation.secret import MASK, Hidden, Secret
from aioproducer.model import FailedRecord

if TYPE_CHECKING:
    from datetime import timedelta

_PREFIX: Final = "by_duration:"
_ISO: Final = (
    r"(?ai)P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?"
)


def by_duration(text: str) -> timedelta | None:
    """The duration in ``by_duration:P1DT12H``; None: the text is something else.

    Source: Java's ``Duration.parse()``, without negative parts.
    """
    if not text.lower().startswith(_PREFIX):
        return None
    found = re.fullmatch(_ISO, text[len(_PREFIX) :])
    if found is None:
        return None
    from datetime import timedelta

    parts = {unit: float(number) for unit, number in found.groupdict().items() if number}
    try:
        return timedelta(**parts) if parts else None
    except OverflowError:
        return None


_PACKAGE: Final = "org.apache.kafka.common.serialization."
_PASSING: Final = ("String", "ByteArray", "ByteBuffer", "Bytes")
"""They do what happens without a serializer."""
_BUILT_IN: Final = ("Short", "Integer", "Long", "Float", "Double", "UUID")
_OF_REGISTRIES: Final = {
    "KafkaAvroSerializer": "AvroSerializer",
    "KafkaJsonSchemaSerializer": "JsonSchemaSerializer",
    "KafkaProtobufSerializer": "ProtobufSerializer",
}


class JavaSerializer(NamedTuple):
    """One of Kafka's serializers whose counterpart is built in; the producer makes it."""

    name: str
    """The name of both classes, such as ``LongSerializer``."""


def java_serializer(class_name: str) -> JavaSerializer | None:
    """The serializer of a property; None: what it takes needs none.

    Raises KeyError for other classes.
    """
    name = class_name.removeprefix(_PACKAGE)
    kind = name.removesuffix("Serializer")
    if name != class_name and kind != name:
        if kind in _PASSING:
            return None
        if kind in _BUILT_IN:
            return JavaSerializer(name)
    raise KeyError(class_name)


def unknown_java_serializer(class_name: str, keyword: str) -> str:
    """The expected values, in place of ``class_name``."""
    counterpart = _OF_REGISTRIES.get(class_name.rpartition(".")[2])
    if counterpart is not None:
        return (
            f"a class that Python can load: aioproducer.schema_registry.{counterpart} is its "
            f"counterpart; pass one as a keyword: from_properties(…, {keyword}={counterpart}(…))"
        )
    kinds = ", ".join((*_PASSING, *_BUILT_IN[:-1]))
    return (
        f"the class name of Kafka's serializer of {kinds} or {_BUILT_IN[-1]}; pass your own as a "
        f"keyword: from_properties(…, {keyword}=…)"
    )


INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

T = TypeVar("T")


class UnacceptableError(Exception):
    """A value is not of the kind. ``str()`` says the expected kind, without the value."""


class Kind(ABC, Generic[T]):
    """The values one option can have."""

    secret: bool = False
    """True if a value must never be shown."""

    @abstractmethod
    def accept(self, value: object) -> T:
        """The normalised value; accepting that again gives it back.

        Raises:
            UnacceptableError: the value is of another type or out of range.
        """

    def parse(self, text: str) -> T:
        """The value that a ``.properties`` file writes as ``text``.

        Raises:
            UnacceptableError: as :meth:`accept`.
        """
        return self.accept(text)

    def hides(self, value: object) -> bool:
        """True if ``value``, acceptable or not, may be a secret that no error and no traceback is
        to show."""
        return self.secret

    def shown(self, value: T) -> str:
        """The ``repr`` of an acceptable value, without the parts that may be secret."""
        return repr(value)

    @property
    @abstractmethod
    def wording(self) -> str:
        """The accepted values in words, for error messages and the documentation."""


class Boolean(Kind[bool]):
    wording = "True or False"

    def accept(self, value: object) -> bool:
        if isinstance(value, bool):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> bool:
        match text.strip().lower():
            case "true":
                return True
            case "false":
                return False
        raise UnacceptableError("true or false")


class Integer(Kind[int]):
    """An ``int`` within a range; neither a ``bool`` nor a ``float``."""

    unit: ClassVar[str] = ""
    _TEXT: Final = r"[+-]?[0-9]{1,19}"

    def __init__(self, minimum: int, maximum: int, *, also: int | None = None) -> None:
        self.minimum = minimum
        self.maximum = maximum
        self.also = also

    def accept(self, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnacceptableError(self.wording)
        if not self.minimum <= value <= self.maximum and value != self.also:
            raise UnacceptableError(self._range("an int" + self.unit, open_ended=value < 0))
        return int(value)

    def parse(self, text: str) -> int:
        if not re.fullmatch(self._TEXT, text.strip()):
            raise UnacceptableError(self.wording)
        return self.accept(int(text))

    @property
    def wording(self) -> str:
        return self._range("an int" + self.unit, open_ended=True)

    def _range(self, what: str, *, open_ended: bool) -> str:
        if open_ended and self.maximum >= INT_MAX:
            text = f"{what}, at least {self.minimum}"
        else:
            text = f"{what}, from {self.minimum} to {self.maximum}"
        return text if self.also is None else f"{text}, or {self.also}"


class Milliseconds(Integer):
    unit = " (milliseconds)"


class Bytes(Integer):
    unit = " (bytes)"


class Text(Kind[str]):
    def __init__(self, *, empty: bool = True, most: int | None = None) -> None:
        self.empty = empty
        self.most = most

    def accept(self, value: object) -> str:
        if (
            isinstance(value, str)
            and (value or self.empty)
            and (self.most is None or self._fits(value, self.most))
        ):
            return str(value)
        raise UnacceptableError(self.wording)

    @staticmethod
    def _fits(value: str, most: int) -> bool:
        """True if ``value`` can stand in a request: a lone surrogate can't."""
        try:
            return len(value.encode()) <= most
        except UnicodeEncodeError:
            return False

    @property
    def wording(self) -> str:
        most = "" if self.most is None else f" of at most {self.most:,} bytes"
        return f"a str{most}" if self.empty else f"a str{most} that is not empty"


class Choice(Kind[Any]):
    """One of the strings of a ``Literal`` type, in any case, as Kafka compares most of its own."""

    def __init__(self, literal: object) -> None:
        self.values: tuple[str, ...] = get_args(literal)

    def accept(self, value: object) -> str:
        if isinstance(value, str):
            for known in self.values:
                if value.strip().lower() == known.lower():
                    return known
        raise UnacceptableError(self.wording)

    @property
    def wording(self) -> str:
        *most, last = map(repr, self.values)
        return f"{', '.join(most)} or {last}"


class OffsetResets(Choice):
    """One of the strings, or ``by_duration:`` and an ISO 8601 duration (KIP-1106)."""

    def accept(self, value: object) -> str:
        if isinstance(value, str) and by_duration(value.strip()) is not None:
            return value.strip()
        return super().accept(value)

    @property
    def wording(self) -> str:
        return f"{super().wording}, or 'by_duration:' and an ISO 8601 duration such as PT1H"


class Acks(Choice):
    """``"all"``, ``"1"`` or ``"0"``; their numbers and ``-1`` are accepted too."""

    def accept(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(int(value))
        if isinstance(value, str) and value.strip() == "-1":
            value = "all"
        return super().accept(value)

    @property
    def wording(self) -> str:
        return "'all' (or -1), 1 or 0"


class Nullable(Kind[T | None]):
    """``None``, or a value of the inner kind; a ``.properties`` file cannot say ``None``."""

    def __init__(self, inner: Kind[T]) -> None:
        self.inner = inner
        self.secret = inner.secret

    def accept(self, value: object) -> T | None:
        if value is None:
            return None
        try:
            return self.inner.accept(value)
        except UnacceptableError as error:
            raise UnacceptableError(f"{error}, or None") from None

    def parse(self, text: str) -> T | None:
        return self.inner.parse(text)

    def hides(self, value: object) -> bool:
        return self.inner.hides(value)

    def shown(self, value: T | None) -> str:
        return repr(None) if value is None else self.inner.shown(value)

    @property
    def wording(self) -> str:
        return f"{self.inner.wording}, or None"


class Addresses(Kind[tuple[Address, ...]]):
    wording = "'host:port,host:port', or a sequence of 'host:port'"

    def accept(self, value: object) -> tuple[Address, ...]:
        if isinstance(value, Secret | Hidden):
            raise UnacceptableError(f"'host:port', but {NO_CREDENTIALS}")
        if not isinstance(value, Iterable) or isinstance(value, (bytes, bytearray)):
            raise UnacceptableError(self.wording)
        try:
            return parse_addresses(value)
        except ValueError as error:
            raise UnacceptableError(f"'host:port', but {error}") from None

    def hides(self, value: object) -> bool:
        """True for addresses with credentials, which are refused."""
        parts = value if isinstance(value, list | tuple | set | frozenset) else (value,)
        return any(isinstance(part, str) and "@" in part for part in parts)


class SupportsPartition(Protocol):
    """An object with a ``partition`` method; ``engine/partitioning.py`` has its arguments."""

    @property
    def partition(self) -> Callable[..., Any]: ...


class SupportsSerialize(Protocol):
    """An object with a ``serialize`` method; ``serialization/serializer.py`` has its arguments."""

    @property
    def serialize(self) -> Callable[..., Any]: ...


NamedPartitioner = Literal[
    "round_robin", "murmur3", "consistent_random", "consistent", "fnv1a", "random"
]
_KAFKAS_OWN: Final = "murmur2_random"
"""librdkafka's name for Kafka's own rule, which is None here."""
PartitionerOption: TypeAlias = NamedPartitioner | SupportsPartition | Callable[..., Any]
SerializerOption: TypeAlias = SupportsSerialize | Callable[..., Any]
InterceptorOption: TypeAlias = object
"""An object with ``on_send`` or ``on_acknowledgement``, or a callable that makes one."""

_JAVA_PACKAGE: Final = "org.apache.kafka.clients.producer."
_JAVA_PARTITIONERS: Final[dict[str, NamedPartitioner]] = {
    f"{_JAVA_PACKAGE}RoundRobinPartitioner": "round_robin"
}


def _is_hook(value: object, *methods: str) -> bool:
    return callable(value) or any(callable(getattr(value, name, None)) for name in methods)


class Partitioner(Kind[PartitionerOption | None]):
    wording = (
        "None (Kafka's own rule; also 'murmur2_random'), 'round_robin', 'murmur3',"
        " 'consistent_random' (librdkafka's default), 'consistent', 'fnv1a', 'random'"
        " (librdkafka's others), a callable, or a class or object with a partition() method"
    )

    def accept(self, value: object) -> Any:
        if isinstance(value, str):
            name = value.strip().lower()
            if name in get_args(NamedPartitioner):
                return name
            if name == _KAFKAS_OWN:
                return None
        elif value is None or _is_hook(value, "partition"):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> Any:
        try:
            return _JAVA_PARTITIONERS.get(text.strip()) or self.accept(text)
        except UnacceptableError:
            raise UnacceptableError(
                f"one of {', '.join((*_JAVA_PARTITIONERS, *get_args(NamedPartitioner)))},"
                f" {_KAFKAS_OWN}; pass your own as a keyword: from_properties(…, partitioner=…)"
            ) from None


class Serializer(Kind[SerializerOption | JavaSerializer | None]):
    wording = (
        "None (bytes are sent unchanged, str as UTF-8), a callable,"
        " or a class or object with a serialize() method"
    )

    def __init__(self, keyword: str) -> None:
        self.keyword = keyword

    def accept(self, value: object) -> Any:
        if value is None or isinstance(value, JavaSerializer) or _is_hook(value, "serialize"):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> Any:
        name = text.strip()
        try:
            return java_serializer(name)
        except KeyError:
            raise UnacceptableError(unknown_java_serializer(name, self.keyword)) from None


class Interceptors(Kind[tuple[InterceptorOption, ...]]):
    wording = (
        "a sequence of objects with on_send() or on_acknowledgement(),"
        " or of classes or callables that make one"
    )

    def accept(self, value: object) -> tuple[InterceptorOption, ...]:
        if not isinstance(value, Iterable) or isinstance(value, (str, bytes)):
            raise UnacceptableError(self.wording)
        interceptors = tuple(value)
        if not all(_is_hook(item, "on_send", "on_acknowledgement") for item in interceptors):
            raise UnacceptableError(self.wording)
        return interceptors

    def parse(self, text: str) -> tuple[InterceptorOption, ...]:
        if text.strip():
            raise UnacceptableError(
                "no value: Java classes cannot be loaded; pass the interceptors as a keyword: "
                "from_properties(…, interceptor_classes=[…])"
            )
        return ()


class SupportsHandlerFor(Protocol):
    """A description of a handler, such as ``DeadLetterTopic``."""

    @property
    def handler_for(self) -> Callable[..., Any]: ...


FailureHookOption: TypeAlias = Callable[[FailedRecord], object] | SupportsHandlerFor


class FailureHook(Kind[FailureHookOption | None]):
    """A function that takes a failed record, or a description of a handler."""

    wording = (
        "None, a callable that takes a FailedRecord (plain or async), or a DeadLetterTopic or "
        "DeadLetterFile"
    )

    def accept(self, value: object) -> Any:
        if value is None or callable(value) or callable(getattr(value, "handler_for", None)):
            return value
        raise UnacceptableError(self.wording)

    def parse(self, text: str) -> Any:
        raise UnacceptableError(
            "no value in a properties file: pass the hook as a keyword, "
            "from_properties(…, on_failed=…)"
        )


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


class SecretText(Kind[Secret]):
    """A password, a key, or another text that is never shown."""

    secret = True
    wording = "a str"

    def accept(self, value: object) -> Secret:
        if isinstance(value, str | Secret):
            return value if isinstance(value, Secret) else Secret(value)
        raise UnacceptableError(self.wording)


class JaasLine(SecretText):
    """A JAAS line, of which only the type is known: the checks between options read it."""

    wording = "a JAAS line"


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

    wording = "a mapping of names (only letters) to printable strings, or 'name=value,name=value'"

    def accept(self, value: object) -> tuple[tuple[str, str], ...]:
        from aioproducer.auth.oauthbearer import extension_fault

        pairs = self._pairs(value)
        if extension_fault(pairs):
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
    """An ``ssl.SSLContext``, known by its class's name: this package does not import ``ssl``."""

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
