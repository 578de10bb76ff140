"""librdkafka's options, which confluent-kafka takes, in terms of ours.

::

    mapping.py       a configuration of theirs into options of ours
    table.py         the rows by their names    general.py, delivery.py, security.py  the rows
    row.py           one option of theirs       values.py                             their values
    settling.py      the defaults of theirs that keep their meaning here
    document.py      the table of the docs
"""

from aioproducer.config.librdkafka.mapping import (
    hidden_librdkafka,
    known_to_librdkafka,
    may_be_secret,
    options_of_librdkafka,
)
from aioproducer.config.librdkafka.table import OF_CONSUMERS

__all__ = [
    "OF_CONSUMERS",
    "hidden_librdkafka",
    "known_to_librdkafka",
    "may_be_secret",
    "options_of_librdkafka",
]
