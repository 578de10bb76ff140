"""Responses with error codes and times that kio does not know. No I/O.

kio reads an error code as one of an enumeration, so a newer broker's code would make the whole
response unreadable, whatever else it says. A time that no ``timedelta`` can hold does the
same: ``connections.max.reauth.ms`` may be as large as a broker's owner likes. The twin of
the response here has numbers in their place.
"""

from __future__ import annotations

from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from functools import cache
from types import GenericAlias
from typing import Any, Final, get_args, get_origin

from kio.static.primitive import i16, i64

_CLASS_VARIABLES: Final = (
    "__type__",
    "__version__",
    "__flexible__",
    "__api_key__",
    "__header_schema__",
)


@cache
def with_numbers(kind: Any, *, times: bool = False) -> Any:
    """A class like ``kind`` (one of kio's) that takes any number for an error code.

    ``times``: and for times of 8 bytes, which are milliseconds then.
    """
    return make_dataclass(
        kind.__name__,
        [(each.name, *_declared(each, times)) for each in fields(kind)],
        namespace={name: getattr(kind, name) for name in _CLASS_VARIABLES if hasattr(kind, name)},
        frozen=True,
        slots=True,
        kw_only=True,
    )


def _declared(each: Any, times: bool) -> tuple[Any, Any]:
    """The type and the field in the twin."""
    declared: Any = each.type
    metadata = dict(each.metadata)
    if metadata.get("kafka_type") == "error_code":
        declared, metadata["kafka_type"] = i16, "int16"
    elif times and metadata.get("kafka_type") == "timedelta_i64":
        declared, metadata["kafka_type"] = i64, "int64"
    elif is_dataclass(declared):
        declared = _twin(declared, times)
    elif get_origin(declared) is tuple and is_dataclass(get_args(declared)[0]):
        declared = GenericAlias(tuple, (_twin(get_args(declared)[0], times), ...))
    default = {} if each.default is MISSING else {"default": each.default}
    return declared, field(metadata=metadata, **default)


def _twin(kind: Any, times: bool) -> Any:
    return with_numbers(kind, times=times)
