"""The numbers that only tune: another value costs time or memory, and breaks no promise.

They are no options. ``Annotated`` gives the least value, from which on a number may have any value.
The simulated lives draw each number anew, its least value included, as FoundationDB does with its
knobs: so a large delivery in many slices is as usual there as a small one. Modules therefore read
``tuning.NAME`` where they need it, or once for a new object, and never import the number itself.
"""

from __future__ import annotations

from typing import Annotated

# --- results -------------------------------------------------------------------------------

RECORDS_PER_SLICE: Annotated[int, 1] = 1_000
"""Records that get their outcome before the event loop may run other tasks."""

RESULTS_PER_SECOND: Annotated[int, 0] = 1_000_000
"""A turn sets as many results as take about a quarter of the time that the last turn took: shorter
slices in a loop with long turns would only delay the results."""

RESULTS_WAITING_PART: Annotated[int, 1] = 16
"""A turn sets at least one part in so many of the results that wait, so their number is bounded."""

# --- batches -------------------------------------------------------------------------------

SMALLEST_BATCH: Annotated[int, 100] = 16_000
"""The bytes of a first batch while ``batch_size`` is None. ``max_request_size`` and
``buffer_memory`` may lower them."""

LARGEST_BATCH: Annotated[int, 1_000] = 64 * SMALLEST_BATCH
"""The bytes of the largest batch while ``batch_size`` is None. Compression may enlarge data that is
random, and the batch then still fits into a broker's default ``message.max.bytes``, 1,048,588."""

MOSTLY_EMPTY_PART: Annotated[int, 1] = 4
"""A batch that fills less than one part in so many makes the next one smaller."""

GROWS_BELOW_RECORDS: Annotated[int, 0] = 1_500
"""A batch with as many records only grows if requests are too small: the first record of a batch
waits for the last one."""

LONGEST_GATHERING: Annotated[float, 0.0] = 0.001
"""Seconds that batches for an idle node wait for the records of a busy event loop, at most."""

STICKY_BYTES: Annotated[int, 1] = 16_000
"""Bytes of keyless records that go to a partition before a partitioner chooses another one."""

PARTITIONS_SAMPLED: Annotated[int, 1] = 32
"""The most partitions that a sticky choice looks at, so that its cost is bounded."""

# --- memory --------------------------------------------------------------------------------

GUARANTEED_PART: Annotated[int, 1] = 2
"""One part in so many is guaranteed to nodes; the rest is taken first come, first served."""

GUARANTEES_FROM_BATCHES: Annotated[int, 1] = 8
"""A pool of fewer batches guarantees no parts: each would be too small for a batch."""

STUCK_AFTER: Annotated[float, 0.0] = 1.0
"""Seconds without a delivery after which callers of other nodes do not wait for a node."""

FEW_PARTITIONS: Annotated[int, 0] = 16
"""Partitions up to which batches are not made smaller for lack of memory."""

BATCHES_BESIDE: Annotated[int, 0] = 6
"""The memory of a node has room for a grown batch of each of its partitions, and so many more: five
in flight, and one that waits."""

REMEMBERED: Annotated[float, 0.0] = 10.0
"""Seconds after which the count of partitions with memory begins to be forgotten."""

# --- requests ------------------------------------------------------------------------------

BYTES_PER_STEP: Annotated[int, 1] = 524_288
"""A step of the sender ends after so many bytes, so that the event loop runs other tasks: it takes
about a millisecond to write a mebibyte."""

BYTES_PER_WRITE: Annotated[int, 1_000] = 262_144
"""Bytes of large requests that are written before the event loop runs other tasks: the system takes
about a millisecond for a mebibyte."""

REQUEST_LEFT_PART: Annotated[int, 1] = 4
"""A request that is full but for one part in so many is not searched for smaller batches."""

PARTS_COPIED_BELOW: Annotated[int, 0] = 16 * 1024
"""Bytes up to which a part of a request is cheaper to copy than to hand to the socket as a piece of
its own."""

PLACES_REMEMBERED: Annotated[int, 1] = 4_096
"""Responses whose places are kept, for the next response with the same ones."""

COMPRESS_ELSEWHERE_BYTES: Annotated[int, 0] = 64 * 1024
"""Bytes: more are compressed in a thread, not on the event loop."""

# --- responses -----------------------------------------------------------------------------

BYTES_PER_READ: Annotated[int, 16] = 16 * 1024
"""Bytes that are read at once, unless more of a large response has to come. Each connection has as
much memory for it."""

PIECES_JOINED_BELOW: Annotated[int, 0] = 4096
"""Bytes of a piece of a response that is joined with the one before."""

RESPONSE_PLACE: Annotated[int, 100] = 1024 * 1024
"""Bytes of memory that are taken at once for a response that has not come yet."""

DECOMPRESSION_STEP: Annotated[int, 100] = 64 * 1024
"""Bytes that the first step of a decompression takes at least."""

COMPRESSED_SLICE: Annotated[int, 1_000] = 256 * 1024
"""Bytes of gzip or LZ4 data in a step: the end of a gzip member copies the rest of its slice."""

DECODED_AT_ONCE: Annotated[int, 0] = 1024 * 1024
"""Bytes of a batch's records that an event loop's thread decodes, at one or two nanoseconds each.
Larger batches are decoded in another thread."""

COMPRESSED_AT_ONCE: Annotated[int, 0] = 64 * 1024
"""Bytes of a compressed batch that the event loop's thread begins to decompress."""

# --- connections ---------------------------------------------------------------------------

SLOW_BROKER: Annotated[float, 0.05] = 1.0
"""Seconds to connect and log in, or to answer a request for any broker, after which a client tries
another broker as well."""

ADDRESS_HEAD_START: Annotated[float, 0.0] = 0.25
"""Seconds between the attempts at two addresses of a host (RFC 8305, section 5)."""

TRANSFER_LOOKS: Annotated[int, 1] = 8
"""The bytes of a late request are looked at so many times in the time of a request."""

TRANSFER_ROUND_TRIPS: Annotated[int, 0] = 2
"""Round trips between two such looks at least: a full window of bytes passes once in a round
trip."""

ROUND_TRIP_FRESH_FOR: Annotated[float, 0.0] = 0.1
"""Seconds for which the system's round-trip time is used. It is an average that moves slowly, and
asking takes a system call."""

BACKOFF_JITTER: Annotated[float, 0.0] = 0.2
"""The part by which a delay before a retry is longer or shorter (KIP-580)."""

SOON_BACKOFF: Annotated[float, 0.0] = 0.005
"""Seconds before the first retry of what takes milliseconds."""

SOON_BACKOFF_GROWTH: Annotated[float, 1.0] = 1.5
"""The factor from such a retry to the next one."""

LEAST_BEAT: Annotated[float, 0.001] = 0.05
"""Seconds between two looks at least that notice a stop of the process."""

# --- metadata ------------------------------------------------------------------------------

METADATA_STEPS_PER_TURN: Annotated[int, 1] = 100
"""Partitions or topics of a metadata response that are processed before other tasks may run. Each
takes some microseconds."""

METADATA_STEP_PARTITIONS: Annotated[int, 0] = 10
"""Partitions up to which a topic of a metadata response is one step."""

TOPICS_PER_REQUEST: Annotated[int, 1] = 2_000
"""The most topics of one metadata request: larger ones take long to write and to answer."""

# --- hooks of the application --------------------------------------------------------------

PREPARED_PER_TURN: Annotated[int, 1] = 100
"""Records serialized after a ``prepare()`` before the event loop may run other tasks."""

TOPICS_PREPARED: Annotated[int, 1] = 10_000
"""Topics that are known as prepared; beyond it all are prepared again."""

FAILURES_PER_TURN: Annotated[int, 1] = 50
"""Calls of a function for failed records after which the event loop may run other tasks."""

FAILURES_PER_CALL: Annotated[int, 1] = 500
"""The most records in one call of a handler of failed records."""

FAILURE_BYTES_PER_CALL: Annotated[int, 1] = 1_000_000
"""The most bytes in one call of a handler of failed records, unless one record has more."""

# --- bulk ----------------------------------------------------------------------------------

BULK_RECORDS_PER_TURN: Annotated[int, 1] = 500
"""Records that ``send_many()`` sends one by one before the event loop may run other tasks."""

BULK_ROWS_PER_TURN: Annotated[int, 1] = 2_000
"""Values that ``send_many()`` sends many in one call, before the event loop may run other tasks. A
value that opens a batch counts as ``BULK_RECORDS_PER_TURN``, for the bytes of the batch before."""

BULK_AHEAD: Annotated[int, 1] = 8
"""The least number of values that ``send_many()`` takes ahead from an iterator. If one call put
more than half of this number into a batch, twice the records of that call are taken, up to
``BULK_RECORDS_PER_TURN``."""

INBOX_RECORDS_PER_TURN: Annotated[int, 1] = 1_000
"""Records of blocking callers after which the event loop may run other tasks."""

# --- telemetry (KIP-714) -------------------------------------------------------------------

TELEMETRY_FIRST_PAUSE: Annotated[float, 0.0] = 1.0
"""Seconds from the first connection to the first request: the first records have the connection to
themselves, and a client that lives shortly never asks."""

TELEMETRY_FIRST_RETRY: Annotated[float, 0.0] = 1.0
"""Seconds before a lost request for the subscription is repeated; doubles with each loss."""

TELEMETRY_POINTS_PER_TURN: Annotated[int, 1] = 200
"""Data points that are encoded before other tasks may run. Each takes a few microseconds."""

# --- reading -------------------------------------------------------------------------------

LONGEST_READ_TURN: Annotated[float, 0.0] = 0.002
"""Seconds for which a response is taken, or batches that are there are handed out, before other
tasks have a turn."""

LONGEST_LOOP_TURN: Annotated[float, 0.0] = 0.01
"""Seconds for which a group's records are handed out one by one before other tasks have a turn."""

LONGEST_WORKERS_TURN: Annotated[float, 0.0] = 0.1
"""Seconds for which handlers that never wait are called before other tasks have a turn. Those that
wait gather at such a pause, and start again together, so there must not be many."""

WORKERS_LINE: Annotated[int, 2] = 256
"""Records of a partition that wait for handlers or are in work, up to which more are lined up. It
may have as many as its share of the handlers."""
