"""The error classes of aiokafka's interface: its own where it is installed, else the same names."""

from __future__ import annotations

from typing import Any, Final

from aioproducer.compat.aiokafka.structs import INSTALLED

_PLAIN: Final = {
    "AuthenticationFailedError": "",
    "Cancelled": "r",
    "IllegalArgumentError": "",
    "IllegalStateError": "",
    "IncompatibleBrokerVersion": "",
    "KafkaConfigurationError": "",
    "KafkaConnectionError": "rm",
    "KafkaProtocolError": "r",
    "KafkaTimeoutError": "",
    "KafkaUnavailableError": "",
    "NoBrokersAvailable": "rm",
    "NodeNotReadyError": "r",
    "ProducerClosed": "",
    "ProducerFenced": "",
    "StaleMetadata": "rm",
    "UnrecognizedBrokerVersion": "",
    "UnsupportedCodecError": "",
}
"""The errors without a code; ``r``: ``retriable``, ``m``: ``invalid_metadata``."""

_WITH_CODE: Final = {
    -1: ("UnknownError", ""),
    1: ("OffsetOutOfRangeError", ""),
    2: ("CorruptRecordException", ""),
    3: ("UnknownTopicOrPartitionError", "rm"),
    5: ("LeaderNotAvailableError", "rm"),
    6: ("NotLeaderForPartitionError", "rm"),
    7: ("RequestTimedOutError", "r"),
    8: ("BrokerNotAvailableError", ""),
    9: ("ReplicaNotAvailableError", ""),
    10: ("MessageSizeTooLargeError", ""),
    12: ("OffsetMetadataTooLargeError", ""),
    14: ("CoordinatorLoadInProgressError", "r"),
    15: ("CoordinatorNotAvailableError", "r"),
    16: ("NotCoordinatorError", "r"),
    17: ("InvalidTopicError", ""),
    18: ("RecordListTooLargeError", ""),
    19: ("NotEnoughReplicasError", "r"),
    20: ("NotEnoughReplicasAfterAppendError", "r"),
    21: ("InvalidRequiredAcksError", ""),
    22: ("IllegalGenerationError", ""),
    24: ("InvalidGroupIdError", ""),
    25: ("UnknownMemberIdError", ""),
    29: ("TopicAuthorizationFailedError", ""),
    30: ("GroupAuthorizationFailedError", ""),
    31: ("ClusterAuthorizationFailedError", ""),
    32: ("InvalidTimestampError", ""),
    33: ("UnsupportedSaslMechanismError", ""),
    34: ("IllegalSaslStateError", ""),
    35: ("UnsupportedVersionError", ""),
    42: ("InvalidRequestError", ""),
    43: ("UnsupportedForMessageFormatError", ""),
    44: ("PolicyViolationError", ""),
    45: ("OutOfOrderSequenceNumber", ""),
    46: ("DuplicateSequenceNumber", ""),
    47: ("InvalidProducerEpoch", ""),
    48: ("InvalidTxnState", ""),
    49: ("InvalidProducerIdMapping", ""),
    50: ("InvalidTransactionTimeout", ""),
    51: ("ConcurrentTransactions", ""),
    53: ("TransactionalIdAuthorizationFailed", ""),
    55: ("OperationNotAttempted", ""),
    56: ("KafkaStorageError", "rm"),
    58: ("SaslAuthenticationFailed", ""),
    59: ("UnknownProducerId", ""),
    72: ("ListenerNotFound", ""),
}
"""The errors that a broker answers a producer with, by Kafka's code."""

_ALIASES: Final = {
    "CoordinatorLoadInProgressError": "GroupLoadInProgressError",
    "CoordinatorNotAvailableError": "GroupCoordinatorNotAvailableError",
    "CorruptRecordException": "InvalidMessageError",
    "NotCoordinatorError": "NotCoordinatorForGroupError",
}


def _stand_ins() -> dict[str, type[Exception]]:
    def made(name: str, base: type[Exception], flags: str, **more: Any) -> type[Exception]:
        doc = f"Stands in for aiokafka's ``{name}``."
        namespace = {"__module__": "aioproducer.compat.aiokafka.errors", "__doc__": doc, **more}
        namespace |= {"retriable": "r" in flags, "invalid_metadata": "m" in flags}
        return type(name, (base,), namespace)

    root = made("KafkaError", RuntimeError, "")
    response = made("BrokerResponseError", root, "")
    illegal = made("IllegalOperation", Exception, "")
    found = {each.__name__: each for each in (root, response, illegal)}
    for name, flags in _PLAIN.items():
        found[name] = made(name, root, flags)
    for code, (name, flags) in _WITH_CODE.items():
        found[name] = made(name, response, flags, errno=code)
    return found | {alias: found[name] for name, alias in _ALIASES.items()}


def _installed() -> dict[str, type[Exception]]:
    from aiokafka import errors  # type: ignore[import-untyped]

    return {
        name: each
        for name, each in vars(errors).items()
        if isinstance(each, type) and issubclass(each, Exception)
    }


CLASSES: Final = _installed() if INSTALLED else _stand_ins()
"""The classes by name."""


def class_of_code(code: int) -> type[Exception] | None:
    """The class of a broker's error code; None: aiokafka has none."""
    if code not in _WITH_CODE:
        return None
    return CLASSES[_WITH_CODE[code][0]]
