"""The application's side of the outbox: ``python examples/outbox/writer.py [customer] [orders]``.

One transaction changes the customer's row and inserts the row for Kafka. ``DSN`` is the address of
PostgreSQL.
"""

import asyncio
import json
import os
import sys

import asyncpg

TOPIC = os.environ.get("TOPIC", "orders")
DSN = os.environ.get("DSN", "postgresql://localhost/shop")


async def order(connection: asyncpg.Connection, customer: str, item: str) -> int:
    """Take an order. Return its number among the customer's orders."""
    async with connection.transaction():
        # The lock on the customer's row keeps the customer's events in order.
        number = await connection.fetchval(
            "INSERT INTO customers VALUES ($1, 1) ON CONFLICT (name) "
            "DO UPDATE SET orders = customers.orders + 1 RETURNING orders",
            customer,
        )
        event = {"customer": customer, "number": number, "item": item}
        await connection.execute(
            "INSERT INTO outbox (topic, key, value) VALUES ($1, $2, $3)",
            TOPIC,
            customer.encode(),
            json.dumps(event).encode(),
        )
    return int(number)


async def main(customer: str, orders: int) -> None:
    connection = await asyncpg.connect(DSN)
    try:
        for _ in range(orders):
            number = await order(connection, customer, "one espresso")
            print(f"order {number} of {customer}")
    finally:
        await connection.close()


if __name__ == "__main__":
    name, number, *_ = [*sys.argv[1:], *("anna", "1")[len(sys.argv) - 1 :]]
    asyncio.run(main(name, int(number)))
