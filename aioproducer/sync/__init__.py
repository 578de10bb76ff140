"""The blocking producer: the same producer, on an event loop in its own thread."""

from aioproducer.sync.producer import Producer

__all__ = ["Producer"]
