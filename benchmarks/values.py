"""Values and keys, the same in every process: their random numbers have a seed.

They are printable ASCII, so that clients that read values from a file of lines send the same.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Sequence
from functools import cache

_DISTINCT = 1_000
_DISTINCT_WHERE_IT_COUNTS = 10_000
"""More than fit into a batch, which else would compress far too well; and keys."""
_LETTERS = string.ascii_letters + string.digits
_WORDS = ("checkout", "search", "basket", "product", "login", "account", "wishlist", "home")
_AGENTS = ("Firefox/128.0 (X11; Linux x86_64)", "Safari/17.5 (Macintosh)", "Chrome/126.0 (Windows)")


@cache
def random_values(seed: str, size: int) -> Sequence[bytes]:
    """Letters and digits by lot, ``size`` bytes each."""
    return _strings(seed, size, _DISTINCT)


@cache
def keys(seed: str, size: int) -> Sequence[bytes]:
    """All different, ``size`` bytes each."""
    return _strings(f"{seed} keys", size, _DISTINCT_WHERE_IT_COUNTS)


@cache
def json_values(seed: str, size: int) -> Sequence[bytes]:
    """Events of a shop, ``size`` bytes each: names repeat, numbers and identities do not."""
    generator = random.Random(seed)
    return tuple(_event(generator, number, size) for number in range(_DISTINCT_WHERE_IT_COUNTS))


def _event(generator: random.Random, number: int, size: int) -> bytes:
    page, agent = generator.choice(_WORDS), generator.choice(_AGENTS)
    event = {
        "event": "page_view",
        "page": f"/{page}/{generator.choice(_WORDS)}",
        "session": generator.randbytes(12).hex(),
        "user_id": generator.randrange(10_000_000),
        "timestamp": 1_700_000_000_000 + 37 * number,
        "duration_ms": generator.randrange(30_000),
        "price": f"{generator.randrange(100_000) / 100:.2f}",
        "user_agent": agent,
        "experiment": generator.choice(("control", "variant_a", "variant_b")),
        "referrer": "",
    }
    missing = size - len(json.dumps(event))
    event["referrer"] = f"https://example.org/{page}?campaign=spring-sale&position=top"[:missing]
    return json.dumps(event).ljust(size).encode()


def _strings(seed: str, size: int, number: int) -> Sequence[bytes]:
    generator = random.Random(seed)
    return tuple("".join(generator.choices(_LETTERS, k=size)).encode() for _ in range(number))
