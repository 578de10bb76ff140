"""Configuration: every option once, with type, default, check, meaning and Java name.

::

    producer_config.py  ProducerConfig            options.py            the rows
    reader_options.py   those of a reader         kinds.py              their values
    names.py            keywords, Java names      addresses.py          'host:port' lists
    cross_checks.py     rules between options     proxy_url.py          the URL of a proxy
    login.py            the configured login      plain_secrets.py      options that hold one
    properties.py       Java's .properties files, placeholders: ${env:…}, ${file:…}
    librdkafka.py       librdkafka's options      __main__.py           the tables of the docs
"""

from aioproducer.config.kinds import JavaSerializer
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
from aioproducer.foundation.secret import Secret

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
    "JavaSerializer",
    "hidden_mapping",
    "hide_secrets",
    "Secret",
]
