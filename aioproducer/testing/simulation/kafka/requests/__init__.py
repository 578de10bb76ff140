"""The requests that the brokers answer; each API in the room of its subject."""
