"""What all clients share: connections by a configuration, and requests to await."""
