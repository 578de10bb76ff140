"""Logins: SASL mechanisms as challenge → response steps, tokens, and the TLS context.

Nothing here opens a connection to a broker; ``network/`` carries the bytes.
"""
