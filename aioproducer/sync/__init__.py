"""The blocking shell: the same producer, on an event loop in a thread of its own."""

from aioproducer.sync.producer import Producer

__all__ = ["Producer"]
