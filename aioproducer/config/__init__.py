"""Configuration: every option once, with type, default, check, meaning and Java name.

::

    options.py          the table                 kinds.py, hooks.py    the values an option takes
    option.py           one row of it             keywords.py           the types of the keywords
    producer_config.py  ProducerConfig            cross_checks.py       what options ask of others
    properties.py       Java's .properties files  jaas.py               the JAAS line in them
    names.py            names that are no option  document.py           the README's tables
"""

from aioproducer.config.jaas import JaasEntry, parse_jaas
from aioproducer.config.keywords import ProducerOptions
from aioproducer.config.options import (
    ADAPTIVE_LINGER_MS,
    AcksOption,
    CompressionType,
    DnsLookup,
    RecoveryStrategy,
    SecurityProtocol,
)
from aioproducer.config.producer_config import ProducerConfig
from aioproducer.config.secret import Secret

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
    "parse_jaas",
    "Secret",
]
