"""The foundation of every client: connections by a configuration, and awaited requests."""
