"""HTTP/2 on the wire (RFC 9113): the kinds of frames, their flags, the error codes, and how each frame is written."""

import struct
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITISED: Final = 0x20

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
INTERNAL_ERROR: Final = 0x2
FLOW_CONTROL_ERROR: Final = 0x3
STREAM_CLOSED: Final = 0x5
FRAME_SIZE_ERROR: Final = 0x6
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
COMPRESSION_ERROR: Final = 0x9
ENHANCE_YOUR_CALM: Final = 0xB

HEADER_TABLE_SIZE: Final = 0x1
ENABLE_PUSH: Final = 0x2
MAX_CONCURRENT_STREAMS: Final = 0x3
INITIAL_WINDOW_SIZE: Final = 0x4
MAX_FRAME_SIZE: Final = 0x5
MAX_HEADER_LIST_SIZE: Final = 0x6

LARGEST_WINDOW: Final = 2**31 - 1
LARGEST_ID: Final = 2**31 - 1
DEFAULT_WINDOW: Final = 65_535
DEFAULT_FRAME: Final = 16_384
LARGEST_FRAME: Final = 2**24 - 1
WORTHWHILE_FRAME: Final = 64 * 1024  # larger ones save nothing more, and other streams wait for them

# The length comes as its upper sixteen bits and its lower eight: `struct` knows no number of 24 bits.
_HEAD: Final = struct.Struct(">HBBBI")
_NUMBER: Final = struct.Struct(">I")
_SETTING: Final = struct.Struct(">HI")
_PARTING: Final = struct.Struct(">II")

read_head = _HEAD.unpack_from
read_number = _NUMBER.unpack_from
read_settings = _SETTING.iter_unpack
pack_id = _NUMBER.pack


class ConnectionFailed(Exception):
    """The peer broke the protocol in a way that ends the whole connection."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class StreamFailed(Exception):
    """The peer broke the protocol on one stream, which is reset."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def head(length: int, kind: int, flags: int, stream: int) -> bytes:
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return head(len(payload), kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join([_SETTING.pack(name, setting) for name, setting in values.items()]))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def rst_stream(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last: int, code: int, reason: str = "") -> bytes:
    return frame(GOAWAY, 0, 0, _PARTING.pack(last, code) + reason.encode()[:200])


SETTINGS_ACK: Final = frame(SETTINGS, ACK, 0)
