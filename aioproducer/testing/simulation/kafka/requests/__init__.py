"""The requests that the brokers answer; each API in the module of its subject."""
