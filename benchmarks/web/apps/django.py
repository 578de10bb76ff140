"""Django, with the lifespan around it that ``examples/web/django_app.py`` explains."""

from collections.abc import Awaitable, Callable
from typing import Any

from django.conf import settings  # type: ignore[import-untyped]
from django.core.asgi import get_asgi_application  # type: ignore[import-untyped]
from django.http import HttpRequest, JsonResponse  # type: ignore[import-untyped]
from django.urls import path  # type: ignore[import-untyped]

from benchmarks.web.clients import Connect

Asgi = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Any], Awaitable[None]]


def make_app(connect: Connect) -> Asgi:
    """The application on one client."""
    settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])
    django = get_asgi_application()

    async def app(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Any) -> None:
        if scope["type"] != "lifespan":
            await django(scope, receive, send)
            return
        await receive()
        async with connect() as scope["state"]["send"]:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    return app


async def post_order(request: HttpRequest, customer: str) -> JsonResponse:
    partition, offset = await request.scope["state"]["send"](customer, request.body)
    return JsonResponse({"partition": partition, "offset": offset}, status=201)


urlpatterns = [path("orders/<customer>", post_order)]
