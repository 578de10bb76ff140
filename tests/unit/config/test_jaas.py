from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.config import Secret, parse_jaas
from aioproducer.errors import ConfigError

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (f"{MODULE} required;", {}),
        (
            f'{MODULE} required username="alice" password="s3cret";',
            {"username": "alice", "password": "s3cret"},
        ),
        (
            f"{MODULE}  REQUIRED\n username='alice'\n password = bob ;",
            {"username": "alice", "password": "bob"},
        ),
        (f'{MODULE} required password="a;b=c \' //d /*e*/";', {"password": "a;b=c ' //d /*e*/"}),
        (f"{MODULE} required password='say \"x\"';", {"password": 'say "x"'}),
        (rf'{MODULE} required password="q\"b\\s\tt\101\q";', {"password": 'q"b\\s\ttAq'}),
        (f"/* x */ {MODULE} required // y\n useTicketCache=true; ", {"useTicketCache": "true"}),
        (f'{MODULE} required a="1" a="2";', {"a": "2"}),
        (f'{MODULE} required password="";', {"password": ""}),
        (f'{MODULE} required password="пароль€";', {"password": "пароль€"}),
    ],
)
def test_lines(line: str, options: dict[str, str]) -> None:
    for given_line in (line, Secret(line)):
        entry = parse_jaas(given_line)
        assert (entry.login_module, entry.control_flag) == (MODULE, "required")
        assert {name: secret.reveal() for name, secret in entry.options} | options == options
        for name, value in options.items():
            assert entry.get(name) == Secret(value)
    assert entry.get("missing") is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "at character 1: the login module's class name"),
        ("M", "at character 2: the control flag was expected"),
        ("M hunter2 a=b;", "the control flag must be one of required"),
        ('M required password="hunter2"', "the closing ';' is missing"),
        ('M required password="hunter2;', "an unclosed quote"),
        ("M required password=hunter2", "the closing ';' is missing"),
        ("M required password=;", "at character 21: a value was expected"),
        ("M required password;", "'=' was expected"),
        ('M required password "hunter2";', "'=' was expected"),
        ("M required password=hunter2 hunter2;", "'=' was expected"),
        ("M required 'hunter2'=a;", "an option's name was expected"),
        ("M required password=hunter2!;", "a character that must be in quotes"),
        ("M required a=hunter2; N required b=hunter2;", "exactly one login module"),
    ],
)
def test_malformed_lines_leak_nothing(line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        parse_jaas(line)
    error = caught.value
    assert str(error).startswith("sasl_jaas_config: at character ")
    assert "hunter2" not in str(error) + repr(error)
    assert error.__cause__ is None
    assert error.__context__ is None


@given(st.text(alphabet="ab=;'\"\\ /*\n", max_size=30))
def test_any_line_is_read_or_refused(line: str) -> None:
    try:
        entry = parse_jaas(f"M required {line}")
    except ConfigError:
        return
    assert entry.login_module == "M"
