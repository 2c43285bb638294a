"""An HTTP/2 client that says whatever a test wants said, frame by frame, and reads what comes back."""

import socket
import struct
from typing import NamedTuple, Self

import hpack
import numpy as np

from falaj.serving.plane.grpc import frames
from falaj.serving.plane.grpc.messages import ModelInferRequest, ModelInferResponse

INFER = "/inference.GRPCInferenceService/ModelInfer"
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"
LIVE = "/inference.GRPCInferenceService/ServerLive"
END = frames.END_HEADERS | frames.END_STREAM


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def code(self) -> int:
        return struct.unpack(">I", self.payload[4:8] if self.kind == frames.GOAWAY else self.payload[:4])[0]


class Reply(NamedTuple):
    head: dict[str, str]
    body: bytes
    trailers: dict[str, str]

    @property
    def status(self) -> int:
        return int(self.trailers.get("grpc-status") or self.head["grpc-status"])

    @property
    def message(self) -> str:
        return self.trailers.get("grpc-message") or self.head.get("grpc-message", "")

    @property
    def messages(self) -> list[bytes]:
        found, position = [], 0
        while position < len(self.body):
            size = struct.unpack_from(">I", self.body, position + 1)[0]
            found.append(self.body[position + 5 : position + 5 + size])
            position += 5 + size
        return found


def request_fields(path: str = INFER, **more: str) -> list[tuple[str, str]]:
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "here")]
    fields += [("te", "trailers"), ("content-type", "application/grpc")]
    return fields + [(name.replace("_", "-"), content) for name, content in more.items()]


def message(payload: bytes, compressed: int = 0) -> bytes:
    return struct.pack(">BI", compressed, len(payload)) + payload


def ask(endpoint: str = "double", numbers: object = (1.0, 2.0), id: str = "") -> bytes:
    array = np.array(numbers, np.float32)
    request = ModelInferRequest(model_name=endpoint, id=id, raw_input_contents=[array.tobytes()])
    request.inputs.add(name="x", datatype="FP32", shape=array.shape)
    return request.SerializeToString()


def numbers_of(reply: Reply) -> list[float]:
    return np.frombuffer(ModelInferResponse.FromString(reply.messages[0]).raw_output_contents[0], np.float32).tolist()


class Peer:
    """`stateless` sends blocks that use no table, as a client does that read our settings."""

    def __init__(self, port: int, *, greet: bool = True, settings: dict[int, int] | None = None, timeout: float = 60.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.ended = False
        self.read: list[Frame] = []
        if greet:
            self.greet(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def greet(self, settings: dict[int, int] | None = None) -> None:
        self.raw(frames.PREFACE + frames.settings(settings or {}))
        self.expect(lambda frame: frame.kind == frames.SETTINGS and not frame.flags & 1)
        self.raw(frames.SETTINGS_ACK)
        self.encoder.header_table_size = 0
        self.expect(lambda frame: frame.kind == frames.SETTINGS and frame.flags & 1)

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> None:
        self.raw(frames.frame(kind, flags, stream, payload))

    def block(self, fields: list[tuple[str, str]] | None = None, huffman: bool = True) -> bytes:
        return self.encoder.encode(fields if fields is not None else request_fields(), huffman=huffman)

    def headers(self, stream: int = 1, fields: list[tuple[str, str]] | None = None, flags: int = frames.END_HEADERS) -> None:
        self.send(frames.HEADERS, flags, stream, self.block(fields))

    def data(self, stream: int = 1, payload: bytes = b"", end: bool = True) -> None:
        self.send(frames.DATA, int(end), stream, payload)

    def infer(self, stream: int = 1, endpoint: str = "double", numbers: object = (1.0, 2.0)) -> None:
        self.headers(stream)
        self.data(stream, message(ask(endpoint, numbers)))

    def next(self) -> Frame | None:
        """None when the server closed."""
        while not self.ended:
            if len(self.buffer) >= 9:
                high, low, kind, flags, stream = frames.read_head(self.buffer)
                size = high << 8 | low
                if len(self.buffer) >= 9 + size:
                    payload = bytes(self.buffer[9 : 9 + size])
                    del self.buffer[: 9 + size]
                    frame = Frame(kind, flags, stream, payload)
                    self.read.append(frame)
                    return frame
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            self.ended = not data
            self.buffer += data
        return None

    def expect(self, wanted: object) -> Frame:
        while (frame := self.next()) is not None:
            if wanted(frame):  # type: ignore[operator]
                return frame
        raise AssertionError(f"the server closed after {self.read[-5:]}")

    def expect_goaway(self, *codes: int) -> None:
        """And nothing after it but the end."""
        frame = self.expect(lambda frame: frame.kind == frames.GOAWAY)
        assert frame.code in codes, frame
        while self.next() is not None:
            pass
        assert self.ended

    def expect_reset(self, stream: int, *codes: int) -> None:
        frame = self.expect(lambda frame: frame.kind in (frames.RST_STREAM, frames.GOAWAY))
        assert frame.kind == frames.RST_STREAM, frame
        assert frame.stream == stream
        assert frame.code in codes, frame
        self.expect_alive()

    def expect_alive(self) -> None:
        self.send(frames.PING, 0, 0, b"are you!")
        self.expect(lambda frame: frame.kind == frames.PING and frame.flags & 1 and frame.payload == b"are you!")

    def reply(self, stream: int = 1) -> Reply:
        heads: list[dict[str, str]] = []
        body = bytearray()
        while True:
            frame = self.expect(lambda frame: frame.stream == stream or frame.kind in (frames.GOAWAY, frames.HEADERS))
            assert frame.kind != frames.GOAWAY or not frame.code, frame
            if frame.kind == frames.HEADERS:
                fields = dict(self.decoder.decode(frame.payload))
                if frame.stream != stream:
                    continue
                heads.append(fields)
            elif frame.kind == frames.DATA:
                body += frame.payload
            elif frame.kind == frames.RST_STREAM:
                raise AssertionError(f"reset: {frame}")
            if frame.flags & frames.END_STREAM and frame.kind in (frames.HEADERS, frames.DATA):
                return Reply(heads[0], bytes(body), heads[1] if len(heads) > 1 else {})

    def expect_answer(self, stream: int = 1, wanted: object = (2.0, 4.0)) -> None:
        reply = self.reply(stream)
        assert reply.status == 0, reply
        assert numbers_of(reply) == list(wanted)  # type: ignore[call-overload]
