"""The JAAS lines of Krb5LoginModule, and GSSAPI without its library."""

from __future__ import annotations

import sys

import pytest
from aioproducer.auth.kerberos_options import KerberosOptions

from aioproducer.auth.gssapi import Gssapi
from aioproducer.config.jaas import parse_jaas
from aioproducer.errors import ConfigError, MissingExtraError


def options_of(options: str, service_name: str | None = "kafka") -> KerberosOptions:
    line = f"com.sun.security.auth.module.Krb5LoginModule required {options};"
    return KerberosOptions.of_jaas(parse_jaas(line), service_name)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (
            'useKeyTab=true storeKey=true keyTab="/etc/app.keytab" principal="app/host@REALM"',
            KerberosOptions("kafka", "app/host@REALM", "/etc/app.keytab"),
        ),
        ("useTicketCache=true", KerberosOptions("kafka", use_ticket_cache=True)),
        (
            'useTicketCache=true renewTGT=true ticketCache="/tmp/cache" doNotPrompt=true',
            KerberosOptions("kafka", use_ticket_cache=True, ticket_cache="/tmp/cache"),
        ),
        (
            'useTicketCache=true useKeyTab=true keyTab="k" principal="p"',
            KerberosOptions("kafka", "p", "k", use_ticket_cache=True),
        ),
        # What is switched off counts for nothing.
        (
            'useTicketCache=false ticketCache="c" useKeyTab=true keyTab="k" serviceName="kafka"',
            KerberosOptions("kafka", keytab="k"),
        ),
        (
            'useTicketCache=true useKeyTab=false keyTab="k"',
            KerberosOptions("kafka", use_ticket_cache=True),
        ),
    ],
)
def test_lines_as_java_has_them(line: str, options: KerberosOptions) -> None:
    assert options_of(line) == options


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("useKeyTab=true", "useKeyTab=true needs keyTab="),
        ('keyTab="/etc/app.keytab"', "needs useKeyTab=true or useTicketCache=true"),
        ("useKeyTab=false", "needs useKeyTab=true or useTicketCache=true"),
        ("useTicketCache=true hunter2=true", "none of Krb5LoginModule's"),
        ('useTicketCache=true serviceName="hunter2"', "serviceName .* contradicts"),
    ],
)
def test_lines_that_can_not_work(line: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        options_of(line)
    assert "hunter2" not in str(caught.value)


def test_the_service_is_named_in_one_place_or_in_both() -> None:
    assert options_of('useTicketCache=true serviceName="k"', None).service_name == "k"
    assert options_of('useTicketCache=true serviceName="k"', "k").service_name == "k"
    assert options_of("useTicketCache=true", "k").service_name == "k"
    with pytest.raises(ConfigError, match="needs sasl_kerberos_service_name"):
        options_of("useTicketCache=true", None)


@pytest.mark.parametrize("name", ["", "kafka/broker", "kafka@broker"])
def test_a_principal_is_no_service_name(name: str) -> None:
    with pytest.raises(ConfigError, match="no service's name"):
        Gssapi(name)


def test_without_the_library_the_error_names_all_that_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(MissingExtraError) as caught:
        Gssapi("kafka")
    for needed in ("aioproducer[gssapi]", "libkrb5-dev", "gcc", "libgssapi-krb5-2"):
        assert needed in str(caught.value)
