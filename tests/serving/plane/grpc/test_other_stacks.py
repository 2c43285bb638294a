"""Other HTTP/2 stacks as the other side: `h2`, whose state machine refuses whatever breaks the protocol, and gRPC over TLS."""

import socket
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import grpc
import h2.config
import h2.connection
import h2.events
import h2.settings
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from falaj.serving.plane.grpc.messages import ModelInferResponse
from tests.serving.plane.grpc.peer import INFER, ask, message, request_fields
from tests.serving.plane.grpc.serving import Served, served


class StrictClient:
    """`h2` over a socket. It raises on any frame that a server may not send."""

    def __init__(self, port: int, window: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.connection.initiate_connection()
        self.connection.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.bodies: dict[int, bytearray] = {}
        self.trailers: dict[int, dict[bytes, bytes]] = {}
        self.ended: set[int] = set()
        self.parted = False
        self._send()

    def _send(self) -> None:
        self.socket.sendall(self.connection.data_to_send())

    def ask(self, body: bytes) -> int:
        stream = self.connection.get_next_available_stream_id()
        self.connection.send_headers(stream, request_fields(INFER))
        self.bodies[stream] = bytearray()
        while body:
            size = min(self.connection.local_flow_control_window(stream), self.connection.max_outbound_frame_size, len(body))
            if not size:
                self._send()
                self.read()
                continue
            self.connection.send_data(stream, body[:size])
            body = body[size:]
        self.connection.end_stream(stream)
        self._send()
        return stream

    def read(self) -> None:
        data = self.socket.recv(65_536)
        assert data
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] += event.data
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.TrailersReceived):
                self.trailers[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.parted = True
        self._send()

    def answer(self, stream: int) -> list[float]:
        while stream not in self.ended:
            self.read()
        assert self.trailers[stream][b"grpc-status"] == b"0"
        response = ModelInferResponse.FromString(bytes(self.bodies.pop(stream)[5:]))
        return np.frombuffer(response.raw_output_contents[0], np.float32).tolist()


@pytest.mark.parametrize(("window", "count"), [(1, 1), (100, 200), (65_535, 5000), (2**31 - 1, 5000)])
def test_a_strict_client_finds_nothing_wrong(face: Served, window: int, count: int):
    client = StrictClient(face.port, window)
    numbers = [float(number) for number in range(count)]
    for _ in range(3):
        streams = [client.ask(message(ask(numbers=numbers))) for _ in range(3)]
        for stream in streams:
            assert client.answer(stream) == [number * 2 for number in numbers]
    client.socket.close()


def test_a_strict_client_sends_large_requests_through_our_window(face: Served):
    client = StrictClient(face.port, 2**20)
    numbers = np.arange(1_500_000, dtype=np.float32)
    assert client.answer(client.ask(message(ask(numbers=numbers)))) == (numbers * 2).tolist()
    client.socket.close()


def test_a_diligent_client_never_tires_the_server(face: Served):
    """`h2` updates windows for each answer; thousands of good requests must not count as a flood."""
    client = StrictClient(face.port, 1000)
    for _ in range(300):
        for stream in [client.ask(message(ask())) for _ in range(10)]:
            assert client.answer(stream) == [2.0, 4.0]
    assert not client.parted
    client.socket.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "certificate.pem").write_bytes(pem)
    (tmp_path / "both.pem").write_bytes(pem + secret)
    return tmp_path


def test_grpc_works_over_tls(certificate: Path):
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate / "both.pem")
    tls.set_alpn_protocols(["h2"])
    roots = grpc.ssl_channel_credentials((certificate / "certificate.pem").read_bytes())
    with served(tls=tls) as face:
        options = [("grpc.max_receive_message_length", -1)]
        with grpc.secure_channel(face.address, roots, options=options) as channel:
            infer = channel.unary_unary(INFER)
            calls = [infer.future(ask(numbers=[float(number)] * 3), timeout=20) for number in range(200)]
            for number, call in enumerate(calls):
                response = ModelInferResponse.FromString(call.result())
                assert np.frombuffer(response.raw_output_contents[0], np.float32).tolist() == [number * 2.0] * 3
            large = np.arange(3_000_000, dtype=np.float32)
            response = ModelInferResponse.FromString(infer(ask(numbers=large), timeout=30))
            assert response.raw_output_contents[0] == (large * 2).tobytes()
            face.do(face.face.drain)
        assert face.open_streams() == 0
