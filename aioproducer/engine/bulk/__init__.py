"""Many records under one awaitable."""
