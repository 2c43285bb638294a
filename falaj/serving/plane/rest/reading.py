"""A process that reads large JSON for a worker: read in the worker, it would keep everybody else waiting.

What it gives back is binary, which costs the worker next to nothing. It ends when the worker does, and takes bounded memory.
"""

import gc
import os
import resource
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any, Final, cast

import msgspec
import numpy as np

from falaj.base.errors import Invalid, TooLarge
from falaj.serving.plane.asking import Described, Given, check_texts
from falaj.serving.plane.rest.codec import Asked, read_infer
from falaj.serving.plane.rest.datatypes import DATATYPES, bf16_of
from falaj.serving.plane.rest.records import read_records

LENGTHS: Final = struct.Struct(">IQ")  # of a message's description and of the bytes behind it
_CODES: Final = {"FP16": "e", "FP32": "f", "FP64": "d", "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q"} | {
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
}
_SLICE: Final = 1 << 16
_MEMORY: Final = 2 * 1024**3  # 16 MiB of JSON take a third of it at most
_LEAVES_AT: Final = 256 * 1024  # KiB of memory that were in use: a fresh process gives them back
_NICE: Final = 5  # where cores are few, who serves comes first


class Job(msgspec.Struct, array_like=True):
    """The body follows. With `described` it holds records for that model, else tensors; of it `most` bytes are taken."""

    most: int
    described: Described | None = None


class Tensor(msgspec.Struct, array_like=True):
    """`size` is of its bytes, which follow those of the tensor before; `texts` are its elements where it is BYTES."""

    name: str
    datatype: str
    shape: list[int]
    size: int
    texts: list[bytes] | None = None


class Read(msgspec.Struct, array_like=True):
    """What was asked, or what is `wrong` with it. Who gave the `last` one ends, and its memory with it."""

    tensors: list[Tensor] = []
    id: str = ""
    wanted: list[str] = []
    binary: list[str] | None = None
    all_binary: bool = False
    patience: float | None = None
    wrong: str = ""
    too_large: bool = False
    last: bool = False


def read(job: Job, body: bytes | bytearray | memoryview) -> tuple[Read, list[bytes]]:
    try:
        asked = read_infer(body, -1, job.most) if job.described is None else Asked(_records(job, body), "")
        check_texts(sum(len(given.data) for given in asked.given if given.datatype == "BYTES"))
        packed = [_packed(given) for given in asked.given]
    except (Invalid, TooLarge) as error:
        return Read(wrong=str(error), too_large=isinstance(error, TooLarge)), []
    except MemoryError:
        return Read(wrong="the request takes too much memory to read: send tensors in binary", too_large=True), []
    told = Read(
        tensors=[_described(given, data) for given, data in zip(asked.given, packed, strict=True)],
        id=asked.id,
        wanted=list(asked.wanted),
        binary=None if asked.binary is None else sorted(asked.binary),
        all_binary=asked.all_binary,
        patience=asked.patience,
    )
    return told, [data for data in packed if data is not None]


def asked_of(read: Read, data: bytes) -> Asked:
    """The other way round, in the worker. Raises `Invalid` and `TooLarge`."""
    if read.wrong:
        raise TooLarge(read.wrong) if read.too_large else Invalid(read.wrong)
    given, at, view = [], 0, memoryview(data)
    for tensor in read.tensors:
        held: Any = tensor.texts if tensor.texts is not None else view[at : at + tensor.size]
        given.append(Given(tensor.name, tensor.datatype, tensor.shape, held))
        at += tensor.size
    asked = Asked(given, read.id)
    asked.wanted, asked.all_binary, asked.patience = read.wanted, read.all_binary, read.patience
    asked.binary = None if read.binary is None else frozenset(read.binary)
    return asked


def _records(job: Job, body: bytes | bytearray | memoryview) -> list[Given]:
    assert job.described is not None  # nosec B101 - who calls has looked
    return read_records(body, job.described, job.most)


def _described(given: Given, data: bytes | None) -> Tensor:
    if data is None:
        return Tensor(given.name, given.datatype, list(given.shape), 0, cast(list[bytes], given.data))
    return Tensor(given.name, given.datatype, list(given.shape), len(data))


def _packed(given: Given) -> bytes | None:
    """None for BYTES, whose elements go as they are."""
    flat, datatype = given.data, DATATYPES[given.datatype]
    if not isinstance(flat, list) or datatype.kind == "bytes":
        return None
    if datatype.kind == "bool":
        return bytes(flat)
    if datatype.name == "BF16":
        return bf16_of(np.array(flat, np.float32)).tobytes()
    code = _CODES[datatype.name]
    return b"".join([_pack(flat[at : at + _SLICE], code, given) for at in range(0, len(flat), _SLICE)])


def _pack(flat: list[Any], code: str, given: Given) -> bytes:
    try:
        return struct.pack(f"<{len(flat)}{code}", *flat)
    except (struct.error, OverflowError):
        for one in flat:
            with suppress(struct.error, OverflowError):
                struct.pack(f"<{code}", one)
                continue
            raise Invalid(f"Input {given.name!r} is {given.datatype}, which cannot hold {str(one)[:60]}.") from None
        raise


# The process


def main() -> None:
    end = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    _stand_back()
    decode, encode = msgspec.msgpack.Decoder(Job).decode, msgspec.msgpack.encode
    while (lengths := _receive(end, LENGTHS.size)) is not None:
        described, behind = LENGTHS.unpack(lengths)
        job, body = _receive(end, described), _receive(end, behind)
        if job is None or body is None:
            break
        told, packed = read(decode(job), body)
        told.last = _most_memory() > _LEAVES_AT
        head = encode(told)
        end.sendall(LENGTHS.pack(len(head), sum(map(len, packed))) + head)
        for data in packed:
            end.sendall(data)
        if told.last:
            break


def _stand_back() -> None:
    gc.disable()  # nothing here goes in circles, and looking for it takes longer than reading does
    with suppress(OSError):
        os.nice(_NICE)
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY if most == resource.RLIM_INFINITY else min(_MEMORY, most), most))


def _most_memory() -> int:
    """In KiB, of this process alone: what `getrusage` gives begins with the memory of the one that started it."""
    with open("/proc/self/status", "rb") as status:
        return next((int(line.split()[1]) for line in status if line.startswith(b"VmHWM:")), 0)


def _receive(end: socket.socket, length: int) -> bytearray | None:
    received = bytearray(length)
    view, at = memoryview(received), 0
    while at < length:
        count = end.recv_into(view[at:])
        if not count:
            return None
        at += count
    return received


if __name__ == "__main__":
    main()
