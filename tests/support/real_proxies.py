"""Proxies that others wrote, on loopback: Squid, tinyproxy, Dante, microsocks and OpenSSH.

None of them is a requirement of the project. Where a program is not on the PATH, its tests skip.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, NoReturn, Self
from urllib.parse import quote

import pytest

from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor

__all__ = ["KINDS", "Dante", "Microsocks", "OpenSsh", "RealProxy", "Squid", "Tinyproxy"]

_PATIENCE: Final = 30.0
_SQUID_HELPERS: Final = ("/usr/lib/squid", "/usr/lib64/squid", "/usr/libexec/squid")


def _program(name: str) -> str:
    """The path of a program; without one, skip loudly."""
    return shutil.which(name) or _say_what_is_missing(f"no {name} on the PATH")


def _say_what_is_missing(what: str) -> NoReturn:
    """Skip the test, or fail it where the proxies are required."""
    if os.environ.get("AIOPRODUCER_REQUIRE_PROXIES") == "1":
        pytest.fail(f"AIOPRODUCER_REQUIRE_PROXIES=1, but: {what}", pytrace=False)
    pytest.skip(f"NOT TESTED WITH THIS PROXY: {what}")


def _listens(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


class RealProxy(ABC):
    """A proxy on 127.0.0.1, as a context manager. It ends with this process, however that ends."""

    program: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]
    known_name: ClassVar[str] = "localhost"
    """A name of 127.0.0.1 that this proxy resolves."""
    login: ClassVar[tuple[str, str] | None] = None
    """A login that it can ask for; None: it only knows the users of the system."""
    has_rules: ClassVar[bool] = True
    """It can refuse a destination."""
    down: ClassVar[str]
    """Its answer if the destination refuses the connection."""

    def __init__(
        self, *, asks_for_login: bool = False, refused_port: int = 0, idle_seconds: int = 600
    ) -> None:
        """``refused_port``: a port to which it does not connect. ``idle_seconds``: Squid ends
        connections without traffic after this time."""
        self._executable = _program(self.program)
        self._asks_for_login = asks_for_login
        self._refused_port = refused_port
        self._idle_seconds = idle_seconds
        [self.port] = free_ports(1)
        # Not pytest's folder: a proxy that gives up the rights of root could not read it.
        self.folder = Path(tempfile.mkdtemp(prefix=f"aioproducer-{self.program}-"))
        self._supervisor: ProcessSupervisor | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it, and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start it, and wait until it listens; after :meth:`kill` again on the same port."""
        self._supervisor = ProcessSupervisor()
        self._supervisor.remove_at_end(self.folder)
        self._process = self._run([self._executable, *self._command()], self.port)

    def kill(self) -> None:
        """End all of its processes at once, and so its connections."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is not None:
            supervisor.keep(self.folder)
            supervisor.close()

    def log(self) -> str:
        """The proxy's own log: it names each destination, Squid does at a connection's end."""
        logs = [each for each in self.folder.iterdir() if each.name.endswith(".log")]
        return "".join(each.read_text("utf-8", "replace") for each in logs)

    def url(self, scheme: str | None = None, login: tuple[str, str] | None = None) -> str:
        """The URL for ``proxy_url``."""
        written = "" if login is None else ":".join(quote(each, safe="") for each in login) + "@"
        return f"{scheme or self.schemes[0]}://{written}127.0.0.1:{self.port}"

    def _run(self, command: Sequence[str], port: int) -> subprocess.Popen[bytes]:
        """Start a process, and wait until it listens at ``port``."""
        assert self._supervisor is not None
        with (self.folder / "output.log").open("ab") as output:
            process = self._supervisor.start(command, stdout=output, stderr=output, cwd=self.folder)
        deadline = time.monotonic() + _PATIENCE
        while not _listens(port):
            assert process.poll() is None, self.log()
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.01)
        return process

    def _write(self, name: str, lines: Sequence[str]) -> str:
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        return str(path)

    @abstractmethod
    def _command(self) -> Sequence[str]:
        """Write the configuration; the arguments of the program, which stays in the foreground."""


class Squid(RealProxy):
    program = "squid"
    schemes = ("http",)
    known_name = "kafka.test"
    login = ("orders-app", "p@ss:w/%ö")
    down = "HTTP 503"

    def kill(self) -> None:
        """End it at once, and remove its shared memory, which it then leaves behind."""
        super().kill()
        for each in Path("/dev/shm").glob(f"{self._service_name}-*.shm"):
            each.unlink(missing_ok=True)

    @property
    def _service_name(self) -> str:
        """The name of its shared memory: another Squid must have another one."""
        return f"aioproducer{self.port}"

    def _command(self) -> Sequence[str]:
        hosts = self._write("hosts", [f"127.0.0.1 {self.known_name}"])
        settings = [
            f"http_port 127.0.0.1:{self.port}",
            "pid_filename none",
            f"access_log stdio:{self.folder / 'access.log'}",
            f"cache_log {self.folder / 'cache.log'}",
            "cache deny all",
            "cache_mem 8 MB",
            "max_filedescriptors 1024",  # Squid takes memory for each
            "pinger_enable off",
            "coredump_dir none",
            "netdb_filename none",
            "visible_hostname squid.test",
            f"hosts_file {hosts}",
            f"read_timeout {self._idle_seconds} seconds",
            f"acl refused port {self._refused_port}",
            "http_access deny refused",
            *(self._login_settings() if self._asks_for_login else ()),
            "http_access allow all",
        ]
        if os.geteuid() == 0:  # it gives up root's rights
            settings.append("cache_effective_user nobody")
            nobody = pwd.getpwnam("nobody")
            for each in (self.folder, *self.folder.iterdir()):
                os.chown(each, nobody.pw_uid, nobody.pw_gid)
        return ["-N", "-n", self._service_name, "-f", self._write("squid.conf", settings)]

    def _login_settings(self) -> Sequence[str]:
        found = shutil.which("basic_ncsa_auth", path=os.pathsep.join(_SQUID_HELPERS))
        if found is None:
            _say_what_is_missing(f"no basic_ncsa_auth in {', '.join(_SQUID_HELPERS)}")
        user, password = self.login
        digest = hashlib.md5(password.encode(), usedforsecurity=False).hexdigest()
        users = self._write("users", [f"{user}:{digest}"])
        return (
            f"auth_param basic program {found} {users}",
            "auth_param basic children 1",
            "acl users proxy_auth REQUIRED",
            "http_access deny !users",
        )


class Tinyproxy(RealProxy):
    program = "tinyproxy"
    schemes = ("http",)
    login = ("orders-app", "pass.w-rd")  # it takes no other special characters
    down = "HTTP 500"

    def _command(self) -> Sequence[str]:
        settings = [
            f"Port {self.port}",
            "Listen 127.0.0.1",
            "MaxClients 100",
            "LogLevel Info",
        ]
        if self._refused_port:
            settings.append("ConnectPort 443")  # the only one: it has no list of refused ports
        if self._asks_for_login:
            settings.append("BasicAuth {} {}".format(*self.login))
        return ["-d", "-c", self._write("tinyproxy.conf", settings)]


class Dante(RealProxy):
    program = "danted"
    schemes = ("socks5h", "socks5")
    down = "SOCKS5 reply 5"

    def kill(self) -> None:
        """End all of its processes. On SIGTERM it waits for most of them itself: faster."""
        if self._supervisor is not None and self._process is not None:
            self._supervisor.stop(self._process)
        super().kill()

    def _command(self) -> Sequence[str]:
        settings = [
            "logoutput: stdout",
            f"internal: 127.0.0.1 port = {self.port}",
            "external: 127.0.0.1",
            "clientmethod: none",
            "socksmethod: none",
        ]
        if os.geteuid() == 0:
            settings += ["user.privileged: root", "user.unprivileged: nobody"]
        settings += ["client pass {", " from: 127.0.0.0/8 to: 0.0.0.0/0", "}"]
        if self._refused_port:
            port = f"port = {self._refused_port}"
            settings += ["socks block {", f" from: 0.0.0.0/0 to: 0.0.0.0/0 {port}", "}"]
        settings += ["socks pass {", " from: 0.0.0.0/0 to: 0.0.0.0/0", " log: connect error", "}"]
        return ["-f", self._write("danted.conf", settings)]


class Microsocks(RealProxy):
    program = "microsocks"
    schemes = ("socks5h", "socks5")
    login = ("us:er", "p@ss/w%ö")
    has_rules = False
    down = "SOCKS5 reply 5"

    def _command(self) -> Sequence[str]:
        login = ("-u", self.login[0], "-P", self.login[1]) if self._asks_for_login else ()
        return ["-i", "127.0.0.1", "-p", str(self.port), *login]


class OpenSsh(RealProxy):
    """``ssh -D`` to a server on loopback, which makes the connections."""

    program = "ssh"
    schemes = ("socks5h", "socks5")
    has_rules = False
    down = "closed the connection: no answer to the request for"

    def start(self) -> None:
        """Start server and client; after :meth:`kill` again on the same port."""
        try:
            super().start()
        except AssertionError:
            if "Permission denied" not in self.log():
                raise
            _say_what_is_missing("sshd refuses this account, which may be locked")

    def _command(self) -> Sequence[str]:
        [server_port] = free_ports(1)
        self._run([_program("sshd"), *self._server_command(server_port)], server_port)
        options = {
            "BatchMode": "yes",
            "IdentitiesOnly": "yes",
            "StrictHostKeyChecking": "no",
            "UserKnownHostsFile": "/dev/null",
            "ExitOnForwardFailure": "yes",
            "LogLevel": "DEBUG2",  # with the destinations
        }
        user = pwd.getpwuid(os.geteuid()).pw_name
        return [
            *("-F", "none", "-N", "-T", "-D", f"127.0.0.1:{self.port}", "-i", "user_key"),
            *("-p", str(server_port)),
            *(f"-o{name}={value}" for name, value in options.items()),
            f"{user}@127.0.0.1",
        ]

    def _server_command(self, port: int) -> Sequence[str]:
        if os.geteuid() == 0:  # as the system does before it starts sshd
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        for name in ("host_key", "user_key"):
            if not (self.folder / name).exists():
                command = [_program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", name]
                subprocess.run(command, cwd=self.folder, check=True)
        settings = [
            f"Port {port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.folder / 'host_key'}",
            f"AuthorizedKeysFile {self.folder / 'user_key.pub'}",
            "StrictModes no",
            "UsePAM no",
            "PidFile none",
        ]
        return ["-D", "-e", "-f", self._write("sshd_config", settings)]


KINDS: Final[Mapping[str, type[RealProxy]]] = {
    each.program: each for each in (Squid, Tinyproxy, Dante, Microsocks, OpenSsh)
}
