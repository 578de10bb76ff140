"""A long way to the brokers: packets of real TCP connections, delayed between two namespaces.

Linux, as root, with ``ip`` and ``nsenter``. The brokers are in this process's new network namespace
and listen on 127.0.0.1 as ever; the clients are in another one, where 127.0.0.1 leads to them. A
process between the two holds every packet for half of the round-trip time.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import selectors
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
_PACKET: Final = 9_000
"""Bytes: a jumbo frame, so that the process between keeps up with the clients."""
_LARGEST_READ: Final = 65_536
_AT_ONCE: Final = 64
"""Packets that are read from a side before the other side has its turn."""
_BROKERS, _CLIENTS = "10.0.0.1", "10.0.0.2"
_READY: Final = b"ready\n"


@contextmanager
def far_away(round_trip: float) -> Iterator[Sequence[str]]:
    """Begins the command of a process that is ``round_trip`` seconds away from this one.

    This process stays in its new namespace. Call it before there are threads.
    """
    _leave_network()
    device = _device("brokers", _BROKERS)
    _ip("link set lo up")
    between = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.distance", str(device), str(round_trip / 2)],
        pass_fds=[device],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    os.close(device)
    with between:
        try:
            assert between.stdout is not None
            if between.stdout.readline() != _READY:
                raise SystemExit("the process between the namespaces did not start")
            yield ["nsenter", f"--net=/proc/{between.pid}/ns/net"]
        finally:
            between.kill()


def _leave_network() -> None:
    """Move this process into a network namespace in which there is nothing yet."""
    if not sys.platform.startswith("linux") or os.geteuid():
        raise SystemExit("a distance to the brokers needs Linux and root")
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
        raise SystemExit(f"no network namespace: {os.strerror(ctypes.get_errno())}")


def _device(name: str, address: str) -> int:
    """A network device of this namespace; its packets are read and written as those of a file."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    _ip(f"address add {address}/24 dev {name}")
    _ip(f"link set {name} mtu {_PACKET} txqueuelen 10000 up")
    settings = Path("/proc/sys/net/ipv4/conf")
    for part in ("all", name):
        (settings / part / "route_localnet").write_text("1")  # 127.0.0.1 may leave and arrive
        (settings / part / "rp_filter").write_text("0")
    return device


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)


def _hold_packets(one: int, other: int, seconds: float, end: int) -> None:
    """Pass the packets of each device to the other one, ``seconds`` later, until ``end`` ends."""
    late: dict[int, deque[tuple[float, bytes]]] = {one: deque(), other: deque()}
    opposite = {one: other, other: one}
    with selectors.DefaultSelector() as selector:
        for each in (one, other, end):
            selector.register(each, selectors.EVENT_READ)
        while True:
            due = min((packets[0][0] for packets in late.values() if packets), default=None)
            timeout = None if due is None else max(0.0, due - perf_counter())
            for key, _ in selector.select(timeout):
                if key.fd == end:
                    return
                for packet in _waiting(key.fd):
                    late[opposite[key.fd]].append((perf_counter() + seconds, packet))
            now = perf_counter()
            for device, packets in late.items():
                while packets and packets[0][0] <= now:
                    os.write(device, packets.popleft()[1])


def _waiting(device: int) -> Iterator[bytes]:
    for _ in range(_AT_ONCE):
        try:
            yield os.read(device, _LARGEST_READ)
        except BlockingIOError:
            return


def main() -> None:
    """The process between: ``python -m benchmarks.distance DEVICE SECONDS``."""
    _leave_network()
    clients = _device("clients", _CLIENTS)
    _ip(f"route add 127.0.0.1/32 dev clients src {_CLIENTS}")
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    device, seconds = sys.argv[1:]
    _hold_packets(int(device), clients, float(seconds), end=sys.stdin.fileno())


if __name__ == "__main__":
    main()
