"""What passes through the walls: whole, with its descriptors, however many, and refused where it is nonsense."""

import os
import socket
import struct
import threading

import pytest

from falaj.base.errors import Corrupt
from falaj.tables import messages


@pytest.fixture
def ends():
    one, other = socket.socketpair()
    with one, other:
        one.settimeout(10)
        other.settimeout(10)
        yield one, other


def test_words_and_descriptors_arrive_together(ends):
    pipes = [os.pipe() for _ in range(230)]  # more than one message of the kernel's takes
    try:
        sending = threading.Thread(target=messages.send, args=(ends[0], {"a": ["ü", None, 1.5]}, [pipe[1] for pipe in pipes]))
        sending.start()
        told, files = messages.receive(ends[1], most_files=1000)
        sending.join()
        assert told == {"a": ["ü", None, 1.5]}
        for number, file in enumerate(files):
            os.write(file, b"%d" % number)
            os.close(file)
        assert [os.read(pipe[0], 10) for pipe in pipes] == [b"%d" % number for number in range(230)]
    finally:
        for pipe in pipes:
            os.close(pipe[0])
            os.close(pipe[1])


def test_messages_follow_each_other(ends):
    large = {"text": "x" * 3_000_000}
    sending = threading.Thread(target=lambda: [messages.send(ends[0], one) for one in ({"n": 1}, large, {"n": 2})])
    sending.start()
    assert [messages.receive(ends[1])[0] for _ in range(3)] == [{"n": 1}, large, {"n": 2}]
    sending.join()


def test_whoever_is_gone_is_said(ends):
    ends[0].sendall(struct.pack("<II", 100, 0) + b"half")
    ends[0].close()
    with pytest.raises(messages.Ended):
        messages.receive(ends[1])
    with pytest.raises(messages.Ended):
        messages.send(ends[1], {"text": "x" * 1_000_000})


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack("<II", 1 << 31, 0),
        struct.pack("<II", 2, 5) + b"{}",
        struct.pack("<II", 4, 0) + b"nope",
        struct.pack("<II", 2, 0) + b"[]",
        struct.pack("<II", 100_000, 0) + b"[" * 100_000,
    ],
)
def test_nonsense_is_refused(ends, raw):
    ends[0].sendall(raw)
    with pytest.raises(Corrupt):
        messages.receive(ends[1])
