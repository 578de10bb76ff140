from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.config.properties import decode_properties, parse_properties
from aioproducer.config.secret import Secret
from aioproducer.errors import ConfigError


def parse(text: str) -> dict[str, str]:
    return parse_properties(Secret(text), origin="client.properties")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\n\r\n  \t\n", {}),
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a \t= \f b  ", {"a": "b  "}),
        ("a == b", {"a": "= b"}),
        ("a : = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=1\na=2", {"a": "2"}),
        ("# a=b\n  ! c=d\ne=f", {"e": "f"}),
        ("a=b # no comment", {"a": "b # no comment"}),
        ("# ends in a backslash \\\na=b", {"a": "b"}),
        ("a=b\\\n   c\\\r\n\td\ne=f", {"a": "bcd", "e": "f"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n# part of it", {"a": "b# part of it"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("\\\n  \\\na=b", {"a": "b"}),
        ("\\\n", {}),
        ("\\\n#a\nb=c", {"b": "c"}),
        (r"a\=\:\ b=c", {"a=: b": "c"}),
        (r"a=\t\n\r\f\q\\", {"a": "\t\n\r\fq\\"}),
        (r"a=\u0041\u00e9\u20AC", {"a": "Aé€"}),
        (r"a=\uD83D\uDE00", {"a": "😀"}),
        (r"a=\\u0041", {"a": r"\u0041"}),
        (r"\u0061=b", {"a": "b"}),
        (r"a\u003db=c", {"a=b": "c"}),
        ("a=1\rb=2\r\nc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=b\x0bc\x85d\u2028e", {"a": "b\x0bc\x85d\u2028e"}),
    ],
)
def test_as_java_reads_it(text: str, expected: dict[str, str]) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize("escape", ["\\u", "\\u12", "\\u12g4", "\\uD800"])
def test_malformed_escape_names_the_line_and_hides_the_value(escape: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"# comment\n\npassword=hunter2{escape}\n")
    assert str(caught.value).startswith("client.properties, line 3: malformed \\u escape")
    assert "hunter2" not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "data", ["a=é".encode(), b"\xef\xbb\xbfa=\xc3\xa9", "a=é".encode("latin-1"), b"a=\\u00e9"]
)
def test_encodings(data: bytes) -> None:
    assert parse(decode_properties(data).reveal()) == {"a": "é"}


def escaped(text: str) -> str:
    def one(character: str) -> str:
        if character in "\t\n\r\f":
            return {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character]
        if character in "\\=:#! ":
            return "\\" + character
        if " " < character <= "~":
            return character
        units = character.encode("utf-16-be")
        return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))

    return "".join(map(one, text))


TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("\\=:#! \t\n\r\fu"))
BREAKS = st.sampled_from(["\n", "\r\n", "\r", "\n# comment\\\n", "\n\n \t\n"])
SEPARATORS = st.sampled_from(["=", ":", " ", " = ", "\t:\f"])


@given(st.dictionaries(TEXT, TEXT), st.data())
def test_what_is_written_is_read(pairs: dict[str, str], data: st.DataObject) -> None:
    written = "".join(
        f"{escaped(key)}{data.draw(SEPARATORS) if key else '='}{escaped(value)}{data.draw(BREAKS)}"
        for key, value in pairs.items()
    )
    assert parse(written) == pairs
    assert parse(decode_properties(written.encode()).reveal()) == pairs


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert isinstance(parse(text), dict)
