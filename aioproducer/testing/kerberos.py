"""A Kerberos realm of its own for tests: MIT's KDC as a child process, on loopback only.

::

    with KerberosRealm() as realm:
        keytab = realm.add_service("kafka", "localhost")
        realm.add_principal("alice")
        monkeypatch.setenv("KRB5_CONFIG", str(realm.configuration))
        ...

It needs Debian's ``krb5-kdc``, ``krb5-admin-server`` (for ``kadmin.local``) and ``krb5-user``. Java
finds the realm by ``-Djava.security.krb5.conf=…``, which is :attr:`KerberosRealm.java_option`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

from aioproducer.testing.ports import free_ports
from aioproducer.testing.processes import ProcessSupervisor

__all__ = ["KerberosError", "KerberosRealm", "KerberosUnavailableError"]

_HOST: Final = "127.0.0.1"
_PACKAGES: Final = "on Debian: apt-get install krb5-kdc krb5-admin-server krb5-user"
_PATH: Final = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))

_KRB5_CONF: Final = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = true
    rdns = true
    udp_preference_limit = 1
    default_ccache_name = FILE:{directory}/ccache
    default_keytab_name = FILE:{directory}/none.keytab
    default_client_keytab_name = FILE:{directory}/none.keytab
    kdc_timeout = 2s
    max_retries = 1
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
[domain_realm]
    localhost = {realm}
"""
_KDC_CONF: Final = """\
[kdcdefaults]
    kdc_listen = ""
    kdc_tcp_listen = {host}:{port}
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        acl_file = {directory}/kadm5.acl
        max_life = {lifetime}s
        max_renewable_life = 0s
    }}
[logging]
    kdc = FILE:{directory}/kdc.log
"""


class KerberosUnavailableError(RuntimeError):
    """The machine lacks MIT's KDC; the message names the packages."""


class KerberosError(RuntimeError):
    """A tool of the realm failed; the message has its output."""


class KerberosRealm:
    """A realm with a KDC of its own; a context manager. Its methods block.

    ``lifetime`` is that of its tickets, in seconds. The KDC and the files end with this process,
    however it ends.
    """

    def __init__(self, realm: str = "AIOPRODUCER.TEST", *, lifetime: int = 3600) -> None:
        self.realm = realm
        self._lifetime = lifetime
        self._directory = Path(tempfile.gettempdir(), f"aioproducer-kdc-{os.urandom(6).hex()}")
        self._port = free_ports(1, _HOST)[0]
        self._supervisor: ProcessSupervisor | None = None
        self._kdc: subprocess.Popen[bytes] | None = None

    @property
    def directory(self) -> Path:
        """The directory of all files of the realm."""
        return self._directory

    @property
    def configuration(self) -> Path:
        """The ``krb5.conf``: for ``KRB5_CONFIG``."""
        return self._directory / "krb5.conf"

    @property
    def java_option(self) -> str:
        """The option by which a Java process finds the realm."""
        return f"-Djava.security.krb5.conf={self.configuration}"

    def start(self) -> None:
        """Return when the KDC listens.

        Raises:
            KerberosUnavailableError: there is no MIT KDC on this machine.
            KerberosError: it does not start.
        """
        missing = [tool for tool in _TOOLS if shutil.which(tool, path=_PATH) is None]
        if missing:
            raise KerberosUnavailableError(f"there is no {', '.join(missing)}; {_PACKAGES}")
        self._supervisor = ProcessSupervisor()
        try:
            self._supervisor.remove_at_end(self._directory)
            self._directory.mkdir(mode=0o700)
            self._write_configuration()
            self._run("kdb5_util", "create", "-s", "-r", self.realm, "-P", os.urandom(16).hex())
            self.start_kdc()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the KDC and remove all files; can be called twice."""
        if self._supervisor is not None:
            self._supervisor.close()

    def start_kdc(self) -> None:
        """Return when the KDC listens; :meth:`start` has started it for the first time."""
        with (self._directory / "kdc.out").open("ab") as out:
            kdc = self._running().start(
                [_found("krb5kdc"), "-n", "-r", self.realm],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment(),
            )
        self._kdc = kdc
        deadline = time.monotonic() + 30
        while not _listens(self._port):
            if kdc.poll() is not None or time.monotonic() > deadline:
                raise KerberosError(
                    f"the KDC does not listen: {(self._directory / 'kdc.out').read_text()}"
                )
            time.sleep(0.02)

    def stop_kdc(self) -> None:
        """End only the KDC: no client gets new tickets."""
        if self._kdc is not None:
            self._running().stop(self._kdc)
            self._kdc = None

    def add_principal(self, name: str, *, password: str | None = None) -> Path:
        """Add a principal; returns its keytab. With a password the keytab is not made."""
        keytab = self._directory / f"{name.replace('/', '-')}.keytab"
        if password is not None:
            self._admin(f'addprinc -pw "{password}" {name}')
            return keytab
        self._admin(f"addprinc -randkey {name}")
        self._admin(f"ktadd -k {keytab} {name}")
        return keytab

    def change_key(self, name: str) -> None:
        """Give the principal another key: its keytabs are of no use any more."""
        self._admin(f"cpw -randkey {name}")

    def add_service(self, service: str, host: str) -> Path:
        """The keytab of ``service/host``, for an acceptor."""
        return self.add_principal(f"{service}/{host}")

    def kinit(self, name: str, keytab: Path, ccache: Path, *, lifetime: int | None = None) -> None:
        """Put a ticket for ``name`` into ``ccache``, as a user's ``kinit`` would."""
        life = () if lifetime is None else ("-l", f"{lifetime}s")
        self._run("kinit", *life, "-k", "-t", str(keytab), "-c", f"FILE:{ccache}", name)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_configuration(self) -> None:
        values = {
            "realm": self.realm,
            "host": _HOST,
            "port": self._port,
            "directory": self._directory,
            "lifetime": self._lifetime,
        }
        self.configuration.write_text(_KRB5_CONF.format(**values))
        (self._directory / "kdc.conf").write_text(_KDC_CONF.format(**values))

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self._directory / "kdc.conf"),
        }

    def _admin(self, command: str) -> None:
        self._run("kadmin.local", "-r", self.realm, "-q", command)

    def _run(self, tool: str, *args: str) -> None:
        child = self._running().start(
            [_found(tool), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment(),
        )
        try:
            out, _ = child.communicate(timeout=60)
        finally:
            self._running().kill(child)
        if child.returncode != 0 or _complains(out):
            raise KerberosError(f"{tool} {' '.join(args)} failed: {out.decode(errors='replace')}")

    def _running(self) -> ProcessSupervisor:
        if self._supervisor is None:
            raise KerberosError("the realm was not started")
        return self._supervisor


_TOOLS: Sequence[str] = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def _found(tool: str) -> str:
    return shutil.which(tool, path=_PATH) or tool


def _listens(port: int) -> bool:
    try:
        socket.create_connection((_HOST, port), 1).close()
    except OSError:
        return False
    return True


def _complains(out: bytes) -> bool:
    """True if ``kadmin.local`` names a command that failed: its exit code says nothing."""
    failed = (b"add_principal:", b"change_password:", b"ktadd:", b"kadmin.local:")
    return any(line.startswith(failed) for line in out.splitlines())
