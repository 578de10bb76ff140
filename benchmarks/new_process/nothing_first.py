"""No client: the price of the interpreter alone."""

from collections.abc import Callable


def send_first(bootstrap_servers: str, topic: str, delivered: Callable[[], None]) -> None:
    delivered()
