"""Configuration: every option once, with type, default, check, meaning and Java name.

::

    producer_config.py  ProducerConfig            options.py, security_options.py  the rows
    reader_options.py   those of a reader
    option.py           one row of the table      kinds.py, security_kinds.py      their values
    names.py            keywords, Java names      addresses.py      'host:port' lists
    cross_checks.py     rules between options     document.py       the tables of the docs
    properties.py       Java's .properties files  placeholders.py   ${env:…}, ${file:…}
    login.py            the kinds of logins       jaas.py           keyword or JAAS line
    configured_login.py the configured login      oauth_login.py    its source of tokens
    secret.py           a text never shown        plain_secrets.py  options that hold one
    java_serializers.py names of serializers        librdkafka/      librdkafka's options
"""

from aioproducer.config.jaas import JaasEntry, parse_jaas
from aioproducer.config.java_serializers import JavaSerializer
from aioproducer.config.names import ProducerOptions, UntypedOptions
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
from aioproducer.config.reader_options import ReaderKeywords, ReaderOptions
from aioproducer.config.secret import Secret

__all__ = [
    "ProducerConfig",
    "ProducerOptions",
    "UntypedOptions",
    "ADAPTIVE_LINGER_MS",
    "AcksOption",
    "CompressionType",
    "DnsLookup",
    "RecoveryStrategy",
    "SecurityProtocol",
    "JaasEntry",
    "JavaSerializer",
    "ReaderKeywords",
    "ReaderOptions",
    "hidden_mapping",
    "hide_secrets",
    "parse_jaas",
    "Secret",
]
