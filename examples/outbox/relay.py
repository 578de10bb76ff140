"""A transactional outbox: send rows from PostgreSQL to Kafka, exactly once.

``python examples/outbox/relay.py [host:port]``; ``DSN`` is the address of PostgreSQL.

Ids of a sequence become visible out of order, so "all rows above the last id" skips rows whose
transaction commits late. The relay reads windows instead: window N contains the rows that snapshot
N sees and snapshot N - 1 does not. The table ``outbox_window`` stores the snapshots. The position
consists of the number of the last window that was sent, and the last id sent of the next window. It
is committed in the Kafka transaction that contains the rows: Kafka has both or neither.
"""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

import asyncpg

from aioproducer import (
    FatalTransactionError,
    OffsetAndMetadata,
    Producer,
    ProducerBrokenError,
    ProducerError,
    TopicPartition,
    UsageError,
    loops,
)

SERVERS = (
    sys.argv[1] if len(sys.argv) > 1 else os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092")
)
DSN = os.environ.get("DSN", "postgresql://localhost/shop")
NAME = os.environ.get("RELAY", "outbox-relay")
"""The transactional id, and the group that stores the position. A new relay fences the old one."""
PLACE = TopicPartition(os.environ.get("MARKER_TOPIC", "orders"), 0)
"""An existing partition. The group stores the position under its name; nothing is written to it."""
ROWS = 1000
"""The maximum number of rows in one Kafka transaction."""
POLL = 5.0
"""Seconds after which the relay looks for rows even without a NOTIFY."""
QUIET = 60.0
"""Seconds after which a call to PostgreSQL fails."""

log = logging.getLogger("outbox")

NEW_WINDOW = """
INSERT INTO outbox_window (number, snapshot)
SELECT $1::bigint + 1, pg_current_snapshot()
WHERE $1 = (SELECT max(number) FROM outbox_window)
  AND EXISTS (
    SELECT FROM outbox, outbox_window AS sent
    WHERE sent.number = $1
      AND xid >= pg_snapshot_xmin(sent.snapshot)
      AND NOT pg_visible_in_snapshot(xid, sent.snapshot))
ON CONFLICT DO NOTHING
"""

ROWS_OF_WINDOW = """
SELECT id, topic, key, value
FROM outbox, outbox_window AS sent, outbox_window AS window_
WHERE sent.number = $1
  AND window_.number = $1 + 1
  AND xid >= pg_snapshot_xmin(sent.snapshot)
  AND xid < pg_snapshot_xmax(window_.snapshot)
  AND NOT pg_visible_in_snapshot(xid, sent.snapshot)
  AND pg_visible_in_snapshot(xid, window_.snapshot)
  AND id > $2
ORDER BY id
LIMIT $3
"""

HAS_NEXT_WINDOW = "SELECT EXISTS (SELECT FROM outbox_window WHERE number = $1::bigint + 1)"

DELETE_SENT = """
DELETE FROM outbox USING outbox_window AS sent
WHERE sent.number = $1
  AND xid < pg_snapshot_xmax(sent.snapshot)
  AND pg_visible_in_snapshot(xid, sent.snapshot)
"""

DELETE_SENT_OF_NEXT_WINDOW = """
DELETE FROM outbox USING outbox_window AS window_
WHERE window_.number = $1 + 1
  AND xid < pg_snapshot_xmax(window_.snapshot)
  AND pg_visible_in_snapshot(xid, window_.snapshot)
  AND id <= $2
"""

DELETE_WINDOWS = "DELETE FROM outbox_window WHERE number < $1"


class Position(NamedTuple):
    """All rows up to here are in Kafka."""

    window: int
    """The last window that was sent completely."""
    last_id: int
    """The last id that was sent of the next window."""


async def read_position(producer: Producer, connection: asyncpg.Connection) -> Position:
    """The committed position.

    If there is none, the relay is new, or was idle for longer than ``offsets.retention.minutes``.
    It then starts after the oldest window, because windows are kept until later ones are sent.
    """
    committed = await producer.committed_offsets(NAME, [PLACE])
    oldest, newest = await connection.fetchrow("SELECT min(number), max(number) FROM outbox_window")
    found = committed.get(PLACE)
    position = Position(oldest, 0) if found is None else Position(found.offset, int(found.metadata))
    if not oldest <= position.window <= newest:
        raise SystemExit(f"{position} is not of this database: it has {oldest} to {newest}")
    return position


async def send_next(
    producer: Producer, connection: asyncpg.Connection, position: Position
) -> Position | None:
    """Send the next rows. Return the position after them, or None if there are no rows."""
    await connection.execute(NEW_WINDOW, position.window)
    rows = await connection.fetch(ROWS_OF_WINDOW, *position, ROWS)
    if len(rows) == ROWS:
        behind = Position(position.window, rows[-1]["id"])
    elif await connection.fetchval(HAS_NEXT_WINDOW, position.window):
        # The window is complete, even if somebody has removed its rows.
        behind = Position(position.window + 1, 0)
    else:
        return None
    async with producer.transaction():
        for row in rows:
            producer.send(row["topic"], row["value"], key=row["key"])  # a failure fails the commit
            await producer.drain()
        marker = OffsetAndMetadata(behind.window, str(behind.last_id))
        await producer.send_offsets_to_transaction({PLACE: marker}, NAME)
    return behind


async def delete_sent(connection: asyncpg.Connection, position: Position) -> None:
    """Delete rows and windows that are no longer needed."""
    async with connection.transaction():
        await connection.execute(DELETE_SENT, position.window)
        await connection.execute(DELETE_SENT_OF_NEXT_WINDOW, *position)
        await connection.execute(DELETE_WINDOWS, position.window)


async def relay(producer: Producer, connection: asyncpg.Connection, news: asyncio.Event) -> None:
    """Send rows as they arrive, until an error."""
    position = await read_position(producer, connection)
    log.info("starting after %s", position)
    await delete_sent(connection, position)
    while True:
        news.clear()
        while (behind := await send_next(producer, connection, position)) is not None:
            position = behind
            await delete_sent(connection, position)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL):
                await news.wait()


@contextlib.asynccontextmanager
async def listening(news: asyncio.Event) -> AsyncIterator[asyncpg.Connection]:
    """A connection that sets ``news`` when a transaction with new rows commits, or when it ends."""
    connection = await asyncpg.connect(
        DSN,
        timeout=QUIET,
        command_timeout=QUIET,
        # A window and its rows are on disk before the rows are sent.
        server_settings={"synchronous_commit": "on"},
    )
    try:
        connection.add_termination_listener(lambda _connection: news.set())
        await connection.add_listener("outbox", lambda *_: news.set())
        yield connection
    finally:
        connection.terminate()


async def run() -> None:
    """Relay until a newer relay takes over. Survive lost connections and aborted transactions."""
    news = asyncio.Event()
    async with Producer(bootstrap_servers=SERVERS, transactional_id=NAME) as producer:
        while True:
            try:
                async with listening(news) as connection:
                    await relay(producer, connection, news)
            except (FatalTransactionError, ProducerBrokenError, UsageError):
                raise
            except (ProducerError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                # Read the position again, because the last commit may be in doubt.
                log.warning("%s: %s; trying again", type(error).__name__, error)
                await asyncio.sleep(random.uniform(0.1, 1.0))


async def main() -> None:
    relaying = asyncio.ensure_future(run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, relaying.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await relaying


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    loops.run(main())
