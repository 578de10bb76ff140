"""Orders over HTTP into Kafka, with Django: ``python examples/web/django_app.py``, or

    uvicorn django_app:app --app-dir examples/web --timeout-graceful-shutdown 8

    curl -d '{"article": 7}' http://127.0.0.1:8000/orders/anna
    curl http://127.0.0.1:8000/health

201: the order is in Kafka, at this partition and offset. 503 with Retry-After: the order is not in
Kafka; send it again. 503 without Retry-After: nobody knows, and sending it again may duplicate it.

Django does not support lifespan events, so ``app`` handles them itself and passes requests on to
Django. The server copies the lifespan's state to the requests' scopes. A server without lifespan
events, such as Daphne, does not start the producer.
"""

import asyncio
import os
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from django.conf import settings  # type: ignore[import-untyped]
from django.core.asgi import get_asgi_application  # type: ignore[import-untyped]
from django.http import HttpRequest, JsonResponse  # type: ignore[import-untyped]
from django.urls import path  # type: ignore[import-untyped]
from django.views.decorators.http import require_POST  # type: ignore[import-untyped]

from aioproducer import Producer, ProducerError, RecordTooLargeError

TOPIC = os.environ.get("KAFKA_TOPIC", "orders")
TIMEOUT_MS = int(os.environ.get("ORDER_TIMEOUT_MS", "5000"))
GRACE = 8  # seconds: longer than a request takes, and with CLOSING less than the platform's
CLOSING = 2

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1", "localhost"])
django = get_asgi_application()


@asynccontextmanager
async def lifespan() -> AsyncIterator[Producer]:
    """One producer for the application. Start only if it is allowed to write."""
    async with Producer(
        bootstrap_servers=os.environ.get("BOOTSTRAP_SERVERS", "localhost:9092"),
        client_id="orders-app",
        delivery_timeout_ms=TIMEOUT_MS,  # the longest that a request waits for its record
        max_block_ms=TIMEOUT_MS,
        request_timeout_ms=TIMEOUT_MS // 3,  # leaves time for another attempt
    ) as producer:
        await producer.check(timeout=10, topics=[TOPIC])
        yield producer
        await producer.close(CLOSING)


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[Any]],
    send: Callable[[dict[str, str]], Awaitable[None]],
) -> None:
    """Serve the lifespan here, and requests by Django."""
    if scope["type"] != "lifespan":
        await django(scope, receive, send)
        return
    await receive()  # lifespan.startup
    stage = "startup"
    try:
        async with lifespan() as scope["state"]["producer"]:
            await send({"type": "lifespan.startup.complete"})
            stage = "shutdown"
            await receive()  # lifespan.shutdown
    except Exception:
        await send({"type": f"lifespan.{stage}.failed", "message": traceback.format_exc()})
    else:
        await send({"type": "lifespan.shutdown.complete"})


async def health(request: HttpRequest) -> JsonResponse:
    """503 with the reason while no order can be written."""
    found = request.scope["state"]["producer"].health()
    return JsonResponse(found.as_dict(), status=200 if found.is_ready else 503)


@require_POST  # type: ignore[untyped-decorator]
async def post_order(request: HttpRequest, customer: str) -> JsonResponse:
    """Answer when the order is in Kafka; the orders of a customer keep their sequence."""
    producer: Producer = request.scope["state"]["producer"]
    try:
        async with asyncio.timeout(0):
            await producer.drain()  # TimeoutError if the memory is full
        metadata = await producer.send(TOPIC, request.body, key=customer)
    except RecordTooLargeError as error:
        return JsonResponse({"error": str(error)}, status=413)
    except ProducerError as error:
        return unavailable(str(error), may_have_been_written=error.may_have_been_written)
    except TimeoutError:
        return unavailable("too many orders wait for Kafka", may_have_been_written=False)
    return JsonResponse({"partition": metadata.partition, "offset": metadata.offset}, status=201)


def unavailable(error: str, *, may_have_been_written: bool) -> JsonResponse:
    """Only an order that is not in Kafka is to be sent again."""
    return JsonResponse(
        {"error": error, "may_have_been_written": may_have_been_written},
        status=503,
        headers={} if may_have_been_written else {"Retry-After": "1"},
    )


urlpatterns = [path("health", health), path("orders/<customer>", post_order)]

if __name__ == "__main__":
    port = int(os.environ.get("PORT", "8000"))
    uvicorn.run(app, host="127.0.0.1", port=port, timeout_graceful_shutdown=GRACE)
