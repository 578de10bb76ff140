"""Kafka's definition; the package explains the columns."""

TABLE = """\
SaslHandshakeRequest 1 flexible never
    mechanism  string

SaslHandshakeResponse 1 flexible never
    error_code  int16
    mechanisms  []string
"""
