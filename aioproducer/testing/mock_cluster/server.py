"""The process of a `MockCluster`: librdkafka's mock cluster, called through ctypes.

Run as a script, ``python -I -S server.py LIBRARY BROKERS PORT``, so that nothing but the standard
library is imported and it starts in milliseconds. PORT is that of the first broker, and the others
have the next ones; 0: the system chooses. It speaks JSON lines:

- first line out: ``{"bootstrap_servers": "127.0.0.1:1234,...", "version": "2.16.1"}``;
- a line in is a list of calls ``[function, argument, ...]``, where the functions are those of
  `_FUNCTIONS` (``rdkafka_mock.h`` without the prefix, and without the cluster as first argument);
- the line out is the list of their results: None, or Kafka's name of the error;
- ``{"failed": "..."}`` instead, when it cannot start or does not know the call;
- ``{"port_in_use": "..."}`` as the first line, when it cannot listen there.

The end of standard input ends the process, so it never outlives its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import socket
import stat
import sys
import threading
import time
from typing import Any

_ERR = ctypes.c_int
_ID = ctypes.c_int32
_INT16 = ctypes.c_int16
_INT = ctypes.c_int
_STR = ctypes.c_char_p
_SIZE = ctypes.c_size_t
_POINTER = ctypes.c_void_p

_PREFIX = "rd_kafka_mock_"
# Of the variadic ones only the named parameters stand here: then ctypes passes the rest by the
# platform's rules for variadic calls, which differ on arm64 macOS. Ints go as C ints.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "topic_create": (_ERR, (_STR, _INT, _INT)),
    "topic_set_error": (None, (_STR, _ERR)),
    "partition_set_leader": (_ERR, (_STR, _ID, _ID)),
    "partition_push_leader_response": (_ERR, (_STR, _INT, _ID, ctypes.c_int32)),
    "partition_push_request_errors": (_ERR, (_STR, _ID, _INT16, _SIZE)),
    "partition_delete_records": (_ERR, (_STR, _ID, ctypes.c_int64)),
    "push_request_errors_array": (None, (_INT16, _SIZE, _POINTER)),
    "clear_request_errors": (None, (_INT16,)),
    "broker_push_request_error_rtts": (_ERR, (_ID, _INT16, _SIZE)),
    "broker_set_rtt": (_ERR, (_ID, _INT)),
    "broker_set_down": (_ERR, (_ID,)),
    "broker_set_up": (_ERR, (_ID,)),
    "broker_set_host_port": (None, (_ID, _STR, _INT)),
    "coordinator_set": (_ERR, (_STR, _STR, _ID)),
    "group_initial_rebalance_delay_ms": (None, (ctypes.c_int32,)),
    "telemetry_set_requested_metrics": (_ERR, (_POINTER, _SIZE)),
    "telemetry_set_push_interval": (_ERR, (ctypes.c_int64,)),
    "set_apiversion": (_ERR, (_INT16, _INT16, _INT16)),
    "start_request_tracking": (None, ()),
    "stop_request_tracking": (None, ()),
    "clear_requests": (None, ()),
}
_PRODUCER = 0
_RETRY_WAKE_SECONDS = 0.0005


class _StartError(Exception):
    """The mock cluster cannot be started; the message says why."""


class _PortInUseError(Exception):
    """Another process listens there; the message says where."""


def _declare(library: ctypes.CDLL) -> None:
    others: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "rd_kafka_version_str": (_STR, ()),
        "rd_kafka_err2name": (_STR, (_ERR,)),
        "rd_kafka_conf_new": (_POINTER, ()),
        "rd_kafka_conf_set": (_INT, (_POINTER, _STR, _STR, _POINTER, _SIZE)),
        "rd_kafka_conf_set_log_cb": (None, (_POINTER, _POINTER)),
        "rd_kafka_new": (_POINTER, (_INT, _POINTER, _POINTER, _SIZE)),
        "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
        "rd_kafka_mock_cluster_bootstraps": (_STR, (_POINTER,)),
        "rd_kafka_mock_get_requests": (ctypes.POINTER(_POINTER), (_POINTER, _POINTER)),
        "rd_kafka_mock_request_destroy_array": (None, (_POINTER, _SIZE)),
        "rd_kafka_mock_request_id": (_ID, (_POINTER,)),
        "rd_kafka_mock_request_api_key": (_INT16, (_POINTER,)),
        "rd_kafka_mock_request_timestamp": (ctypes.c_int64, (_POINTER,)),
    }
    for name, (result, arguments) in _FUNCTIONS.items():
        others[_PREFIX + name] = (result, (_POINTER, *arguments))
    for name, (result, arguments) in others.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            version = library.rd_kafka_version_str().decode()
            raise _StartError(f"librdkafka {version} is too old: it has no {name}") from None
        function.restype, function.argtypes = result, arguments


def _write_ends_of_pipes() -> set[int]:
    """The write ends of the pipes open in this process."""
    found = set()
    for fd in map(int, os.listdir("/dev/fd")):
        with contextlib.suppress(OSError):
            writes_only = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
            if writes_only and stat.S_ISFIFO(os.fstat(fd).st_mode):
                found.add(fd)
    return found


def _listeners() -> dict[int, int]:
    """Port → descriptor of the sockets that listen in this process."""
    found = {}
    for fd in map(int, os.listdir("/dev/fd")):
        try:
            listener = socket.socket(fileno=fd)
        except OSError:
            continue
        with contextlib.suppress(OSError):
            if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                found[listener.getsockname()[1]] = fd
        listener.detach()
    return found


class _Waker:
    """Wakes the cluster's thread up again while a call waits for it.

    Its loop serves the queue of calls *before* it empties the pipe that wakes it up, so the byte of
    a call made in between is lost, and the call would wait for the poll's timeout, a second.
    """

    def __init__(self, pipes: set[int]) -> None:
        self._pipes = pipes
        self._calling = threading.Event()
        self._parent = select.poll()
        self._parent.register(0, 0)  # reports nothing but that the parent is gone
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self) -> None:
        self._calling.set()

    def __exit__(self, *_: object) -> None:
        self._calling.clear()

    def _run(self) -> None:
        while self._calling.wait():
            time.sleep(_RETRY_WAKE_SECONDS)
            if not self._calling.is_set():
                continue
            for pipe in self._pipes:
                with contextlib.suppress(OSError):
                    os.write(pipe, b"\1")
            if self._parent.poll(0):
                os._exit(0)


class _Cluster:
    """The one mock cluster of this process. It ends with the process, never before."""

    def __init__(self, path: str, brokers: int, port: int) -> None:
        try:
            self._library = library = ctypes.CDLL(path)
        except OSError as error:
            raise _StartError(f"cannot load librdkafka: {error}") from None
        _declare(library)
        conf = library.rd_kafka_conf_new()
        library.rd_kafka_conf_set(conf, b"log_level", b"0", None, 0)
        library.rd_kafka_conf_set_log_cb(conf, None)
        error_text = ctypes.create_string_buffer(512)
        handle = library.rd_kafka_new(_PRODUCER, conf, error_text, len(error_text))
        if not handle:
            raise _StartError(f"rd_kafka_new: {error_text.value.decode()}")
        pipes = _write_ends_of_pipes()
        self._cluster = library.rd_kafka_mock_cluster_new(handle, brokers)
        if not self._cluster:
            raise _StartError(f"librdkafka could not open {brokers} listening sockets")
        self._waker = _Waker(_write_ends_of_pipes() - pipes)
        self._bootstrap: str = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        self._ports: dict[int, int] = {}
        if port:
            drawn = [int(each.rpartition(":")[2]) for each in self._bootstrap.split(",")]
            self._ports = {each: port + index for index, each in enumerate(drawn)}
            self._bootstrap = ",".join(f"localhost:{each}" for each in self._ports.values())
            self._move()
            for index, each in enumerate(self._ports.values()):
                self.call("broker_set_host_port", index + 1, "localhost", each)

    def _move(self) -> None:
        """Listen at our ports in place of those that librdkafka got from the system.

        It can't be told which, and accepts from whatever has the descriptor of its listener.
        """
        listeners = _listeners()
        for drawn in self._ports.keys() & listeners.keys():
            try:
                moved = socket.create_server(("127.0.0.1", self._ports[drawn]))
            except OSError as error:
                where = f"localhost:{self._ports[drawn]}"
                raise _PortInUseError(f"{where}: {os.strerror(error.errno or 0)}") from None
            with moved:
                moved.setblocking(False)
                os.dup2(moved.fileno(), listeners[drawn], inheritable=False)

    def describe(self) -> dict[str, str]:
        version = self._library.rd_kafka_version_str()
        return {"bootstrap_servers": self._bootstrap, "version": version.decode()}

    def call(self, name: str, *arguments: int | str | list[int] | list[str]) -> object:
        if name == "requests":
            return self._requests()
        result_type, _ = _FUNCTIONS[name]
        function = getattr(self._library, _PREFIX + name)
        with self._waker:
            code = function(self._cluster, *map(_to_c, arguments))
        if name == "broker_set_up":
            self._move()
        if result_type is None or code == 0:
            return None
        return str(self._library.rd_kafka_err2name(code).decode())

    def _requests(self) -> list[tuple[int, int, int]]:
        library = self._library
        count = _SIZE()
        array = library.rd_kafka_mock_get_requests(self._cluster, ctypes.byref(count))
        if not count.value:
            return []
        found = [
            (
                library.rd_kafka_mock_request_id(array[i]),
                library.rd_kafka_mock_request_api_key(array[i]),
                library.rd_kafka_mock_request_timestamp(array[i]),
            )
            for i in range(count.value)
        ]
        library.rd_kafka_mock_request_destroy_array(array, count)
        return found


def _to_c(argument: int | str | list[int] | list[str]) -> object:
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, list):
        texts = [each.encode() for each in argument if isinstance(each, str)]
        numbers = [each for each in argument if isinstance(each, int)]
        return (_STR * len(texts))(*texts) if texts else (ctypes.c_int * len(numbers))(*numbers)
    return argument


def _answer(message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    try:
        cluster = _Cluster(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    except _StartError as error:
        _answer({"failed": str(error)})
        return
    except _PortInUseError as error:
        _answer({"port_in_use": str(error)})
        os._exit(0)
    _answer(cluster.describe())
    for line in sys.stdin:
        try:
            _answer([cluster.call(*call) for call in json.loads(line)])
        except (KeyError, TypeError, ValueError, ctypes.ArgumentError) as error:
            _answer({"failed": f"{type(error).__name__}: {error}"})
    os._exit(0)


if __name__ == "__main__":
    main()
