"""librdkafka's options, which confluent-kafka takes, in terms of ours.

::

    mapping.py       a configuration of theirs into options of ours
    table.py         the rows by their names    general.py, delivery.py, security.py  the rows
    row.py           one option of theirs       values.py                             their values
    settling.py      the defaults of theirs that keep their meaning here
    document.py      the table of the docs
"""

from aioproducer.config.librdkafka.mapping import hidden_librdkafka, options_of_librdkafka

__all__ = ["hidden_librdkafka", "options_of_librdkafka"]
