"""Keep records whose delivery failed, in a dead letter topic or a file, and send them again.

::

    Producer(bootstrap_servers=..., on_failed=DeadLetterTopic("orders.failed"))
    Producer(bootstrap_servers=..., on_failed=DeadLetterFile("failed.jsonl"))
"""

from aioproducer.engine.failures import FailedRecordHandler
from aioproducer.failed_records.dead_letter import DeadLetter, Uncertain
from aioproducer.failed_records.dead_letter_file import DeadLetterFile, read_dead_letters
from aioproducer.failed_records.dead_letter_topic import DeadLetterTopic

__all__ = [
    "DeadLetter",
    "DeadLetterFile",
    "DeadLetterTopic",
    "FailedRecordHandler",
    "Uncertain",
    "read_dead_letters",
]
