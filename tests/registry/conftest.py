"""One schema registry for the session; tests that disturb it start their own."""

from __future__ import annotations

from tests.support.schema_registry import registry_server

__all__ = ["registry_server"]
