"""The certificate of a plane, renewed while it runs."""

import shutil
import ssl
from pathlib import Path

import pytest

from falaj.app.certificates import self_signed
from falaj.serving.plane.certificates import Certificate, shown_certificate


def greeted(server: ssl.SSLContext, trusted: Path, offers: list[str], newest: ssl.TLSVersion | None = None) -> str | None:
    """A whole handshake in memory, by a client that trusts this certificate; the protocol that both agreed on."""
    client = ssl.create_default_context(cafile=str(trusted))
    client.set_alpn_protocols(offers)
    if newest is not None:
        client.maximum_version = newest
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() == "TLSv1.3"
    return ends[0].selected_alpn_protocol()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return self_signed(tmp_path / "first", ["localhost"])


def test_who_speaks_http2_alone_gets_grpc_and_others_rest_and_nobody_less_than_tls_1_3(files: tuple[Path, Path]) -> None:
    context = Certificate(*map(str, files)).context
    assert greeted(context, files[0], ["h2"]) == "h2"
    assert greeted(context, files[0], ["h2", "http/1.1"]) == "http/1.1"
    assert greeted(context, files[0], ["http/1.1"]) == "http/1.1"
    with pytest.raises(ssl.SSLError):
        greeted(context, files[0], ["h2"], newest=ssl.TLSVersion.TLSv1_2)


def test_a_renewed_certificate_is_shown_to_the_next_client_once_both_files_are_there(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate = Certificate(*map(str, files))
    kept = shutil.copy(files[0], tmp_path / "kept.pem")
    renewed = self_signed(tmp_path / "renewed", ["localhost"])
    shutil.copy(renewed[0], tmp_path / "half").replace(files[0])
    certificate.look_again()  # the key is still that of the former one
    assert greeted(certificate.context, kept, ["h2"]) == "h2"
    shutil.copy(renewed[1], tmp_path / "half").replace(files[1])
    certificate.look_again()
    assert greeted(certificate.context, renewed[0], ["h2"]) == "h2"
    with pytest.raises(ssl.SSLError):
        greeted(certificate.context, kept, ["h2"])


def test_files_that_are_gone_or_broken_change_nothing(files: tuple[Path, Path], tmp_path: Path) -> None:
    certificate = Certificate(*map(str, files))
    kept = shutil.copy(files[0], tmp_path / "kept.pem")
    files[0].write_text("no certificate")
    certificate.look_again()
    files[1].unlink()
    certificate.look_again()
    assert greeted(certificate.context, kept, ["h2"]) == "h2"


def test_what_is_told_of_a_file_is_its_first_certificate_and_never_a_key(files: tuple[Path, Path], tmp_path: Path) -> None:
    own, other = files[0].read_text().strip(), self_signed(tmp_path / "other", ["localhost"])[0].read_text()
    chain = tmp_path / "all-in-one.pem"
    chain.write_text(f"{files[1].read_text()}\n{own}\n{other}")
    assert shown_certificate(str(chain)) == own
    assert shown_certificate(str(files[1])) == ""
    assert shown_certificate(str(tmp_path / "none")) == ""
    assert shown_certificate("") == ""
