r"""Keys and certificates in PEM, from files or from options (KIP-651).

Options may hold them on one line, as Kafka's properties do: line breaks are spaces there, or
``\n`` as two characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aioproducer.config.secret import Secret

__all__ = ["PemBlocks", "pem_blocks"]

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([\x00-\x7f]*?)-----END \1-----")
_LINE_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class PemBlocks:
    """The blocks of a PEM text by kind, each with the line breaks that OpenSSL insists on."""

    keys: tuple[Secret, ...]
    certificates: tuple[str, ...]
    revocation_lists: tuple[str, ...]


def pem_blocks(text: Secret) -> PemBlocks:
    """Find the blocks in ``text``; what is around them is a comment. Never raises.

    A block that does not end, as in a file that is being written, is none.
    """
    blocks = [(match[1], _in_lines(match[1], match[2])) for match in _BLOCK.finditer(_broken(text))]
    return PemBlocks(
        tuple(Secret(block) for label, block in blocks if label.endswith("PRIVATE KEY")),
        tuple(block for label, block in blocks if label.endswith("CERTIFICATE")),
        tuple(block for label, block in blocks if label == "X509 CRL"),
    )


def _broken(text: Secret) -> str:
    r"""``text`` with a line break for each ``\n`` of two characters; base64 has no backslash."""
    return text.reveal().replace("\\r", "").replace("\\n", "\n")


def _in_lines(label: str, body: str) -> str:
    if ":" in body:  # headers of an old format, such as Proc-Type: their lines have a meaning
        lines = [line.strip() for line in body.strip().split("\n")]
    else:
        joined = "".join(body.split())
        lines = [joined[at : at + _LINE_LENGTH] for at in range(0, len(joined), _LINE_LENGTH)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])
