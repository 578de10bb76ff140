"""SASLprep: the examples of RFC 4013, the prohibitions, and what holds for every string."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.auth.credentials import prohibition, saslprep


@pytest.mark.parametrize(
    ("text", "prepared"),
    [
        ("I\u00adX", "IX"),
        ("user", "user"),
        ("USER", "USER"),
        ("\u00aa", "a"),
        ("\u2168", "IX"),
        ("a\u00a0b", "a b"),
        ("a\u200bb", "ab"),  # mapped to nothing, though a space, too
        ("u\u0308", "ü"),
        ("\ufb01sh", "fish"),
        ("\U0001f600", "\U0001f600"),  # unassigned in Unicode 3.2
    ],
)
def test_what_is_mapped_and_normalized(text: str, prepared: str) -> None:
    assert saslprep(text) == prepared
    assert prohibition(prepared) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("\u0007", "character 1 is a control character"),
        ("ab\u0085", "character 3 is a control character"),
        ("\ue000", "private use"),
        ("\ufffe", "without a character"),
        ("\ud800", "a surrogate"),
        ("\ufffd", "plain text"),
        ("\u2ff0", "canonical representation"),
        ("\u202e", "how others are displayed"),
        ("\U000e0041", "a tagging character"),
        ("\u0627\u0031", "begin and end"),
        ("a\u0627", "right-to-left"),
    ],
)
def test_what_is_prohibited(text: str, reason: str) -> None:
    said = prohibition(saslprep(text))
    assert said is not None
    assert reason in said


def test_right_to_left_alone_is_allowed() -> None:
    assert prohibition("\u0627\u0031\u0628") is None


@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_printable_ascii_stays_as_it_is(text: str) -> None:
    assert saslprep(text) == text
    assert prohibition(text) is None


@given(st.text(st.characters()))
def test_a_prepared_string_stays_as_it_is(text: str) -> None:
    prepared = saslprep(text)
    if prohibition(prepared) is None:
        assert saslprep(saslprep(prepared)) == saslprep(prepared)
