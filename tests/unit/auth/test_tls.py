"""The context of the next connection: the same one until its files change."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from aioproducer.auth.tls import TlsContexts, TlsOptions
from aioproducer.errors import ConfigError
from aioproducer.testing.certificates import Authority


@pytest.fixture
def trusted(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "trusted.pem"
    path.write_text(authority.pem)
    return path


def serials(context: ssl.SSLContext) -> list[object]:
    return [each["serialNumber"] for each in context.get_ca_certs()]


class ObservedContexts(TlsContexts):
    """Counts the contexts that are made; the test may act after each."""

    made = 0

    def _make(self, *options: Any) -> ssl.SSLContext:
        self.made += 1
        context = super()._make(*options)
        self.after()
        return context

    def after(self) -> None: ...


def test_files_are_not_read_again_while_they_are_the_same(trusted: Path) -> None:
    contexts = ObservedContexts(TlsOptions(truststore_location=str(trusted)))
    first = contexts.get()
    assert contexts.get() is first
    assert contexts.made == 1


@pytest.mark.parametrize("how", ["written over", "replaced", "link that leads elsewhere"])
def test_new_content_gives_a_new_context(
    tmp_path: Path, trusted: Path, stranger: Authority, how: str
) -> None:
    location = tmp_path / "link.pem" if how.startswith("link") else trusted
    if location is not trusted:
        location.symlink_to(trusted)
    contexts = TlsContexts(TlsOptions(truststore_location=str(location)))
    first = contexts.get()
    new = tmp_path / "new.pem"
    new.write_text(stranger.pem)
    match how:
        case "written over":
            trusted.write_text(stranger.pem)
        case "replaced":
            new.replace(trusted)
        case _:  # as Kubernetes does with secrets
            other = tmp_path / "other.pem"
            other.symlink_to(new)
            other.replace(location)
    second = contexts.get()
    assert second is not first
    assert serials(second) != serials(first)
    assert contexts.get() is second


def test_same_size_and_time_are_not_the_same_file(trusted: Path, stranger: Authority) -> None:
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted)))
    contexts.get()
    before = trusted.stat()
    content = stranger.pem.ljust(before.st_size)[: before.st_size]
    new = trusted.with_suffix(".new")
    new.write_text(content + " " * (before.st_size - len(content)))
    os.utime(new, ns=(before.st_atime_ns, before.st_mtime_ns))
    made = contexts.get()
    new.replace(trusted)
    if len(stranger.pem) <= before.st_size:
        assert contexts.get() is not made


@pytest.mark.parametrize("harm", ["half written", "gone", "nonsense"])
def test_a_file_that_can_not_be_used_leaves_the_old_context(
    trusted: Path, stranger: Authority, caplog: pytest.LogCaptureFixture, harm: str
) -> None:
    caplog.set_level(logging.INFO)
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted)))
    first = contexts.get()
    match harm:
        case "half written":
            trusted.write_text(stranger.pem[:100])
        case "gone":
            trusted.unlink()
        case _:
            trusted.write_bytes(b"\xff\xfe")
    assert contexts.get() is first
    assert contexts.get() is first
    (warning,) = caplog.records
    assert warning.levelname == "WARNING"
    assert str(trusted) in warning.getMessage()
    trusted.write_text(stranger.pem)
    assert serials(contexts.get()) != serials(first)
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
    trusted.unlink()
    contexts.get()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "WARNING"]


def test_a_file_that_changes_while_it_is_read_is_read_again(
    trusted: Path, stranger: Authority
) -> None:
    class ChangesOnce(ObservedContexts):
        def after(self) -> None:
            if self.made == 1:
                trusted.write_text(stranger.pem)

    contexts = ChangesOnce(TlsOptions(truststore_location=str(trusted)))
    first = contexts.get()
    assert serials(contexts.get()) != serials(first)


def test_options_that_are_read_again_count_for_the_next_context(
    trusted: Path, tmp_path: Path, stranger: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    other = tmp_path / "other.pem"
    other.write_text(stranger.pem)
    place = trusted

    def reread() -> TlsOptions:
        if place is tmp_path:
            raise ConfigError("the placeholder can't be read")
        return TlsOptions(truststore_location=str(place))

    contexts = TlsContexts(reread(), reread=reread)
    first = contexts.get()
    assert contexts.get() is first
    place = tmp_path
    assert contexts.get() is first
    assert contexts.get() is first
    place = other
    assert serials(contexts.get()) != serials(first)
    assert contexts.options == reread()
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]


def test_a_first_context_that_can_not_be_made_raises_each_time(trusted: Path) -> None:
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted) + ".gone"))
    for _ in range(2):
        with pytest.raises(ConfigError, match="can't be read"):
            contexts.get()
    trusted.rename(str(trusted) + ".gone")
    contexts.get()


def test_threads_get_the_same_context(trusted: Path) -> None:
    contexts = TlsContexts(TlsOptions(truststore_location=str(trusted)))
    together = Barrier(8)
    got = []

    def get() -> None:
        together.wait()
        got.append(contexts.get())

    threads = [Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, got))) == 1


@pytest.mark.parametrize("own", [False, True])
def test_names_that_are_not_verified_get_one_warning(
    own: bool, caplog: pytest.LogCaptureFixture
) -> None:
    TlsContexts(TlsOptions())
    assert caplog.records == []
    options, said = (
        TlsOptions(endpoint_identification_algorithm=""),
        "ssl_endpoint_identification_algorithm=''",
    )
    if own:
        context = ssl.create_default_context()
        context.check_hostname = False
        options, said = TlsOptions(context=context), "ssl_context has check_hostname=False"
    contexts = TlsContexts(options)
    assert contexts.get() is contexts.get()
    [warning] = caplog.records
    assert warning.levelname == "WARNING"
    assert f"{said}: the names in certificates are not verified" in warning.message


def test_our_contexts_are_as_strict_as_pythons_own() -> None:
    context, python = TlsContexts(TlsOptions()).get(), ssl.create_default_context()
    strict = ssl.VERIFY_X509_STRICT
    assert context.verify_flags & strict == python.verify_flags & strict
    assert not context.hostname_checks_common_name


def test_a_context_that_verifies_nothing_gets_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = ssl.create_default_context()
    TlsContexts(TlsOptions(context=own))
    assert caplog.records == []
    own.check_hostname = False
    own.verify_mode = ssl.CERT_NONE
    contexts = TlsContexts(TlsOptions(context=own))
    assert contexts.get() is contexts.get() is own
    assert [
        "ssl_context does not verify certificates" in each.message for each in caplog.records
    ] == [True]
