"""Write the tables of messages from Kafka's own definitions: ``python -m tests.protocol.tables``.

The definitions lie in the jar of Kafka's clients (``common/message/*.json``). What no version that
is spoken has is left out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from aioproducer.engine.protocol import SUPPORTED, Api, tables
from aioproducer.testing.kafka_distribution import KafkaDistribution, KafkaRelease

RELEASE: Final = KafkaRelease("4.4.0")
FILE: Final = Path(tables.__file__)
COMMENT: Final = re.compile(r"^\s*//.*$", re.M)
WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
DATA: Final = {"ConsumerProtocolAssignment": (0, 3), "ConsumerProtocolSubscription": (0, 3)}
"""Messages inside of others, and their versions."""
KINDS: Final = "Request", "Response"
STEP: Final = "    "
DOCSTRING: Final = '''"""Kafka's definitions of the spoken messages. The package explains them.

Written by ``python -m tests.protocol.tables``.
"""'''


def main() -> int:
    """Write every table."""
    FILE.write_text(generated(), "utf-8")
    return 0


def generated() -> str:
    """The file as it should be."""
    with ZipFile(clients_jar()) as jar:
        found = {
            api.name.lower(): "\n".join(
                _message(jar, _camel(api.name) + kind, *SUPPORTED[api]) for kind in KINDS
            )
            for api in Api
        }
        for name, versions in DATA.items():
            found[_snake(name)] = _message(jar, name, *versions)
    entries = [f'    "{name}": """\\\n{found[name]}""",\n' for name in sorted(found)]
    return f"{DOCSTRING}\n\nTABLES = {{\n{''.join(entries)}}}\n"


def clients_jar() -> Path:
    """The jar of Kafka's clients."""
    libraries = KafkaDistribution.resolve(RELEASE).directory / "libs"
    [found] = libraries.glob("kafka-clients-*.jar")
    return found


def _message(jar: ZipFile, name: str, lowest: int, highest: int) -> str:
    said = json.loads(COMMENT.sub("", jar.read(f"common/message/{name}.json").decode()))
    theirs = _range(said["validVersions"])
    if highest > theirs[1]:
        raise SystemExit(f"{name}: Kafka has no version {highest}")
    versions = lowest, highest
    flexible = said["flexibleVersions"]
    first = "never" if flexible == "none" else f"from {max(_range(flexible)[0], lowest)}"
    common = {each["name"]: each["fields"] for each in said.get("commonStructs", ())}
    rows = list(_rows(said["fields"], versions, versions, common, set(), 1))
    width = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    lines = [f"{name} {_shown(versions)} flexible {first}"]
    for label, kind, *rest in rows:
        words = f"{label:{width[0]}}  {kind:{width[1]}}  {' '.join(rest)}"
        lines.append(words.rstrip())
    return "\n".join(lines) + "\n"


def _rows(
    fields: list[Any],
    spoken: tuple[int, int],
    message: tuple[int, int],
    common: dict[str, Any],
    known: set[str],
    depth: int,
) -> Iterator[tuple[str, ...]]:
    for field in fields:
        versions = _common(_range(field["versions"]), spoken)
        if versions is None:
            continue
        kind = field["type"]
        inner = kind.removeprefix("[]")
        nullable = _common(_range(field.get("nullableVersions", "none")), versions)
        if nullable is not None:
            kind += "?" if nullable == versions else f"?{_shown(nullable)}"
        rest = [] if versions == spoken else [_shown(versions)]
        if "default" in field and str(field["default"]) not in ("", "0", "false"):
            rest.append(f"= {_default(field['default'])}")
        if "tag" in field:
            assert _common(_range(field["taggedVersions"]), versions) == versions, field
            rest.append(f"tag {field['tag']}")
        if field.get("ignorable"):
            rest.append("ignorable")
        yield STEP * depth + _snake(field["name"]), kind, " ".join(rest)
        parts, within = field.get("fields"), versions
        if parts is None:
            parts, within = common.get(inner), message
        if parts and inner not in known:
            known.add(inner)
            yield from _rows(parts, within, message, common, known, depth + 1)


def _default(said: Any) -> str:
    text = str(said)
    return str(int(text, 16)) if text.startswith("0x") else text


def _range(said: str) -> tuple[int, int]:
    if said == "none":
        return 1, 0
    first, _, last = said.partition("-")
    if first.endswith("+"):
        return int(first[:-1]), sys.maxsize
    return int(first), int(last or first)


def _common(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    first, last = max(one[0], other[0]), min(one[1], other[1])
    return (first, last) if first <= last else None


def _shown(versions: tuple[int, int]) -> str:
    first, last = versions
    return str(first) if first == last else f"{first}-{last}"


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _snake(name: str) -> str:
    return WORD.sub("_", name).lower()


if __name__ == "__main__":
    sys.exit(main())
