"""A mechanism whose credentials stand in placeholders: they are read again for each login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final

from aioproducer.auth.mechanism import Exchange, Mechanism
from aioproducer.config import ProducerConfig
from aioproducer.errors import ConfigError
from aioproducer.foundation.logs import plain_logger
from aioproducer.foundation.runtime.patience import PatientTimeout
from aioproducer.foundation.runtime.threads import ThreadForEach
from aioproducer.foundation.wording import duration

__all__ = ["RereadMechanism"]

logger = plain_logger(__name__)

_THREADS: Final = ThreadForEach("aioproducer-placeholders")
"""Not the event loop: a file may be on a network drive that hangs."""
_TIMEOUT: Final = 10.0


@final
class RereadMechanism(Mechanism):
    """The mechanism that ``make`` makes of a configuration, made anew when a placeholder's value
    has changed.

    Credentials that can't be read or used, as their file is half written perhaps, leave the old
    ones in use, with one warning.
    """

    def __init__(
        self,
        config: ProducerConfig,
        mechanism: Mechanism,
        make: Callable[[ProducerConfig], Mechanism | None],
    ) -> None:
        """``mechanism``: the one of ``config``."""
        self._config = config
        self._make = make
        self._mechanism = self._previous = mechanism
        self._complaint = ""
        self.name = mechanism.name

    async def current(self) -> Mechanism:
        """See :meth:`aioproducer.auth.mechanism.Mechanism.current`; a file that hangs is none."""
        loop, known = asyncio.get_running_loop(), self._config
        try:
            async with PatientTimeout(_TIMEOUT):
                config = await loop.run_in_executor(_THREADS, known.reread)
            if config is not known and config != self._config:  # another login may have taken it
                self._take(config)
            self._complaint = ""
        except (ConfigError, TimeoutError) as error:
            self._complain(str(error) or f"they were not read within {duration(_TIMEOUT)}")
        return await self._mechanism.current()

    def _take(self, config: ProducerConfig) -> None:
        made = self._make(config) or self._mechanism
        self._previous, self._mechanism = self._mechanism, made
        self._config, self.name = config, made.name
        logger.info("New logins use the new values of the placeholders in the configuration")

    def _complain(self, what: str) -> None:
        if what != self._complaint:
            self._complaint = what
            logger.warning(
                "The credentials can't be read again, so the old ones stay in use: %s", what
            )

    async def begin(self, host: str) -> Exchange:
        """Start a login with the credentials as they are now."""
        return await (await self.current()).begin(host)

    async def close(self) -> None:
        """End what the mechanism in use, and the one before it, run on this event loop."""
        for mechanism in (self._previous, self._mechanism):
            await mechanism.close()
