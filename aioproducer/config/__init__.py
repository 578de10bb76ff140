"""Configuration: every option once, with type, default, check, meaning and Java name.

::

    options.py          the table                 kinds.py, hooks.py    the values an option takes
    option.py           one row of it             keywords.py           the types of the keywords
    producer_config.py  ProducerConfig            cross_checks.py       rules between options
    properties.py       Java's .properties files  jaas.py               the JAAS line in them
    names.py            names that are no option  document.py           the tables of the docs

    tls_options.py, sasl_options.py, token_options.py   the rows of security
    security_kinds.py   their values              security_checks.py    rules between them
    login.py            the kinds of logins       configured_login.py   the one that is asked for
    login_sources.py    keyword and JAAS line     oauth_login.py        the sources of tokens
    placeholders.py     ${env:…}, ${file:…}       config_providers.py   their sources
    secret.py           a text never shown        plain_secrets.py      options with one as it is
    secret_checks.py    the ones that look odd
"""

from aioproducer.config.configured_login import login_of
from aioproducer.config.jaas import JaasEntry, parse_jaas
from aioproducer.config.keywords import ProducerOptions
from aioproducer.config.login import Login
from aioproducer.config.options import (
    ADAPTIVE_LINGER_MS,
    AcksOption,
    CompressionType,
    DnsLookup,
    RecoveryStrategy,
    SecurityProtocol,
)
from aioproducer.config.plain_secrets import hidden_mapping, hide_secrets
from aioproducer.config.producer_config import ProducerConfig
from aioproducer.config.secret import Secret, type_name_of

__all__ = [
    "ProducerConfig",
    "ProducerOptions",
    "ADAPTIVE_LINGER_MS",
    "AcksOption",
    "CompressionType",
    "DnsLookup",
    "RecoveryStrategy",
    "SecurityProtocol",
    "JaasEntry",
    "Login",
    "hidden_mapping",
    "hide_secrets",
    "login_of",
    "parse_jaas",
    "Secret",
    "type_name_of",
]
