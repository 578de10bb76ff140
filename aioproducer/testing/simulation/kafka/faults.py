"""The faults of the next requests."""

from __future__ import annotations

from dataclasses import dataclass

from aioproducer.errors.broker import ErrorCode


@dataclass
class _Rule:
    """For requests of one kind, at one broker or at any."""

    api: int | None
    broker: int | None
    left: int
    code: ErrorCode = ErrorCode.NONE
    milliseconds: int = 0
    skipped: int = 0
    """The requests before them that it leaves alone."""

    def meets(self, api: int, broker: int) -> bool:
        return self.left > 0 and self.api in (None, api) and self.broker in (None, broker)


class RequestFaults:
    """Rules, each with the number of requests that it applies to, the oldest first."""

    def __init__(self) -> None:
        self._errors: list[_Rule] = []
        self._lost: list[_Rule] = []
        self._throttled: list[_Rule] = []

    def fail_next(self, api: int, code: int, broker: int | None, times: int) -> None:
        """Answer with an error code instead of doing the work."""
        self._errors.append(_Rule(api, broker, times, ErrorCode(code)))

    def lose_next_response(self, api: int, broker: int | None, times: int, after: int = 0) -> None:
        """Do the work, and end the connection in place of the response, ``after`` so many."""
        self._lost.append(_Rule(api, broker, times, skipped=after))

    def throttle(self, milliseconds: int, times: int, broker: int | None) -> None:
        """Answer with a throttle time, and read nothing more from the connection until then."""
        self._throttled.append(_Rule(None, broker, times, milliseconds=milliseconds))

    def error_of(self, api: int, broker: int) -> ErrorCode:
        """The error for the request that is begun now."""
        rule = _take(self._errors, api, broker)
        return ErrorCode.NONE if rule is None else rule.code

    def loses_response(self, api: int, broker: int) -> bool:
        """True if the response that is written now shall be lost."""
        return _take(self._lost, api, broker) is not None

    def throttle_ms(self, api: int, broker: int) -> int:
        """The throttle time of the response that is written now."""
        rule = _take(self._throttled, api, broker)
        return 0 if rule is None else rule.milliseconds


def _take(rules: list[_Rule], api: int, broker: int) -> _Rule | None:
    for rule in rules:
        if rule.meets(api, broker):
            if rule.skipped:
                rule.skipped -= 1
                continue
            rule.left -= 1
            if not rule.left:
                rules.remove(rule)
            return rule
    return None
