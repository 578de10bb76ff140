"""PEM as it comes: in files, on one line, with comments, half written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aioproducer.auth.keystores import pem_blocks
from aioproducer.config.secret import Secret
from aioproducer.testing.certificates import Certificate

FORMS: dict[str, Callable[[str], str]] = {
    "as it is": lambda pem: pem,
    "Kafka's one line": lambda pem: pem.replace("\n", " "),
    "backslash and n": lambda pem: pem.replace("\n", "\\n"),
    "one line without any space": lambda pem: pem.replace("\n", ""),
    "of Windows": lambda pem: pem.replace("\n", "\r\n"),
    "escaped, of Windows": lambda pem: pem.replace("\n", "\\r\\n"),
    "indented": lambda pem: pem.replace("\n", "\n    "),
    "with comments": lambda pem: f"Bag Attributes: é\n  none: yes\n{pem}\nthe end",
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_blocks_in_every_form(client: Certificate, form: str) -> None:
    pem = client.pem("geheim")
    found = pem_blocks(Secret(FORMS[form](pem)))
    (key,) = found.keys
    assert key.reveal().startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    assert key.reveal() + "".join(found.certificates) == pem


def test_each_kind_of_key(client: Certificate) -> None:
    for label in ("PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        found = pem_blocks(Secret(f"-----BEGIN {label}-----\nAAAA\n-----END {label}-----"))
        assert len(found.keys) == 1
    public = "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"
    assert pem_blocks(Secret(public)).keys == ()


def test_headers_of_an_old_format_keep_their_lines() -> None:
    body = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA"
    text = f"-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n"
    (key,) = pem_blocks(Secret(text)).keys
    assert key.reveal() == text


def test_a_block_without_an_end_is_none(client: Certificate) -> None:
    half = client.chain_pem[:-30]
    assert pem_blocks(Secret(half)).certificates == ()
    assert pem_blocks(Secret(half + client.chain_pem)).certificates != (client.chain_pem,) * 2
    assert pem_blocks(Secret("")).keys == ()
