"""Lists of conversations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tests.support.conversations.chat import Chat

Script: TypeAlias = Callable[[Chat], None]


class Conversation(NamedTuple):
    """A script, the settings of its topic, and the protocols that it is about."""

    script: Script
    config: dict[str, str]
    protocols: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.script.__name__


class Conversations(list[Conversation]):
    """Conversations about one subject."""

    def held(self, *protocols: int, **config: str) -> Callable[[Script], Script]:
        """Add a script; without ``protocols`` it is held with one cluster only."""

        def add(script: Script) -> Script:
            settings = {key.replace("_", "."): value for key, value in config.items()}
            self.append(Conversation(script, settings, protocols))
            return script

        return add
