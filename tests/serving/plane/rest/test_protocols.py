"""One port for both: HTTP/2 is handed over with all its bytes, in the clear and under TLS."""

import asyncio
import datetime
import ssl
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.serving.plane.rest.arithmetic import Arithmetic, Server
from tests.serving.plane.rest.wires import Wire, post, sum_request

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Echo(asyncio.Protocol):
    """Stands where HTTP/2 will: says back what it hears."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


def heard(wire: Wire, length: int) -> bytes:
    said = b""
    while len(said) < length:
        piece = wire.socket.recv(length)
        assert piece, "closed"
        said += piece
    return said


@pytest.mark.parametrize("size", [1, 3, 4, 5, 24, 200_000])
def test_a_connection_with_the_preface_of_http_2_is_handed_over(core: Arithmetic, size: int) -> None:
    sent = PREFACE + b"frames" * (1000 if size < 100 else 30_000)
    with Server(core, h2=Echo) as server, Wire(server) as wire:
        first = sent[: 40 * size]
        for at in range(0, len(first), size):
            wire.send(first[at : at + size])
        assert heard(wire, len(first)) == first
        wire.send(b"more")
        assert heard(wire, 4) == b"more"
        assert server.edge.connections == 0


def test_other_words_that_begin_alike_are_http_1(core: Arithmetic) -> None:
    request = post("/v2/models/sum/infer", sum_request([1, 2, 3]))
    with Server(core, h2=Echo) as server, Wire(server) as wire:
        wire.send(request[:1])
        wire.send(request[1:2])
        wire.send(request[2:])
        assert wire.reply().status == 200
        wire.send(PREFACE)
        assert wire.reply().status == 400


def test_without_http_2_its_preface_is_refused(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(PREFACE)
        assert wire.reply().status == 400


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "cert").write_bytes(made.public_bytes(pem))
    (folder / "key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(folder / "cert", folder / "key")
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context, folder / "cert"


def wrapped(server: Server, cert: Path, *protocols: str) -> Wire:
    context = ssl.create_default_context(cafile=str(cert))
    context.set_alpn_protocols(list(protocols))
    wire = Wire(server)
    wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
    return wire


def test_tls_carries_small_and_large_requests_alike(core: Arithmetic, tls: tuple[ssl.SSLContext, Path]) -> None:
    context, cert = tls
    with Server(core, h2=Echo, tls=context) as server, wrapped(server, cert, "http/1.1") as wire:
        for rows in (1, 20_000, 1):
            wire.send(post("/v2/models/sum/infer", sum_request(*[[1, 2, 3]] * rows)))
            assert wire.reply().said["outputs"][0]["data"] == [6.0] * rows
        wire.send(post("/v2/models/sum/infer", b"{", "content-length : 1"))
        reply = wire.reply()
        assert (reply.status, reply.closes) == (400, True)
        assert wire.is_closed()


def test_what_tls_agreed_on_decides(core: Arithmetic, tls: tuple[ssl.SSLContext, Path]) -> None:
    context, cert = tls
    with Server(core, h2=Echo, tls=context) as server, wrapped(server, cert, "h2", "http/1.1") as wire:
        wire.send(PREFACE + b"frames")
        assert heard(wire, 30) == PREFACE + b"frames"
        wire.send(b"x" * 100_000)
        assert heard(wire, 100_000) == b"x" * 100_000
