"""Kafka's definition; the package explains the columns."""

TABLE = """\
SaslAuthenticateRequest 0-2 flexible from 2
    auth_bytes  bytes

SaslAuthenticateResponse 0-2 flexible from 2
    error_code           int16
    error_message        string?
    auth_bytes           bytes
    session_lifetime_ms  int64    1-2 ignorable
"""
