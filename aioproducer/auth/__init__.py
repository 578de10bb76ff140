"""Logins: SASL mechanisms as challenge → response steps, tokens, and the TLS context.

Nothing here opens a connection to a broker; ``engine/network/`` carries the bytes.
"""
