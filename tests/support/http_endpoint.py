"""A scripted HTTP server on loopback: each request gets the next answer, the last one again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self, TypeAlias

__all__ = ["Answer", "HttpEndpoint", "ok"]

Answer: TypeAlias = Callable[[BaseHTTPRequestHandler], None]


def ok(text: str, status: int = 200) -> Answer:
    """Answer with ``text``."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.end_headers()
        request.wfile.write(text.encode())

    return answer


class HttpEndpoint:
    """``paths`` are those that were asked for."""

    def __init__(self, *answers: Answer) -> None:
        self.paths: list[str] = []
        self._answers = list(answers)
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # it is http.server's name
                endpoint.paths.append(self.path)
                answers = endpoint._answers
                (answers.pop(0) if len(answers) > 1 else answers[0])(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
