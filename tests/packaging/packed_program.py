"""A program that PyInstaller packs: ``packed_program SERVERS SECURED_SERVERS``."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import aioproducer
from aioproducer.admin import Admin
from aioproducer.consumer import Consumer
from aioproducer.reader import Reader
from aioproducer.sync import Producer as BlockingProducer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
RECORDS = 100


async def main(servers: str) -> None:
    """Each client of the asynchronous interface."""
    for codec in CODECS:
        options: dict[str, Any] = {"bootstrap_servers": servers, "compression_type": codec}
        async with aioproducer.Producer(**options) as producer:
            values = [b"value" * 20] * RECORDS
            assert (await producer.send_many("orders", values, partition=0)).delivered == RECORDS
            await producer.check(topics=["orders"])
    async with (
        aioproducer.Producer(bootstrap_servers=servers, transactional_id="t") as producer,
        producer.transaction(),
    ):
        producer.send("orders", b"value", partition=0)
    where = aioproducer.TopicPartition("orders", 0)
    async with Reader({where: "beginning"}, bootstrap_servers=servers) as reader:
        read = 0
        async for _ in reader:
            read += 1
            if read > len(CODECS) * RECORDS:
                break
    for protocol in ("classic", "consumer"):
        given: dict[str, Any] = {"group_id": protocol, "group_protocol": protocol}
        async with Consumer(
            "orders", bootstrap_servers=servers, auto_offset_reset="earliest", **given
        ) as consumer:
            async for _ in consumer:
                break
            await consumer.commit()
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic("new", 1, 1)


def blocking(servers: str, **options: Any) -> None:
    """The blocking producer."""
    with BlockingProducer(bootstrap_servers=servers, **options) as producer:
        producer.send("orders", b"value").result()
        producer.send_many("orders", [b"value"] * RECORDS)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
    blocking(sys.argv[1])
    blocking(
        sys.argv[2],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_username="alice",
        sasl_password="secret",
    )
    print("compiled" if aioproducer.__accelerated__ else "source", flush=True)
