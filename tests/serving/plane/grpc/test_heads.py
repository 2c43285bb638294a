"""What is remembered of header blocks means what it meant, and stays bounded."""

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.plane.grpc.frames import ConnectionFailed
from falaj.serving.plane.grpc.heads import Memory, StatefulFields, StatelessFields

LARGEST = 16 * 1024
texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=60)
fields_lists = st.lists(st.tuples(texts.filter(bool), texts), max_size=20)


def stateless_block(fields: list[tuple[str, str]], huffman: bool) -> bytes:
    encoder = hpack.Encoder()
    encoder.header_table_size = 0
    return encoder.encode(fields, huffman=huffman)


@given(fields_lists, st.booleans())
def test_a_stateless_block_is_decoded_as_hpack_decodes_it(fields: list[tuple[str, str]], huffman: bool):
    known = StatelessFields(LARGEST)
    wanted = [(name.encode(), content.encode()) for name, content in fields]
    block = stateless_block(fields, huffman)
    for _ in range(2):  # the second time from memory
        assert known.decode(block) == wanted


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_as_hpack_decodes_them_or_refused(block: bytes):
    reference = hpack.Decoder(max_header_list_size=LARGEST)
    reference.header_table_size = reference.max_allowed_table_size = 0
    try:
        wanted = [(bytes(name), bytes(content)) for name, content in reference.decode(block, raw=True)]
    except (hpack.HPACKError, IndexError):
        wanted = None
    known = StatelessFields(LARGEST)
    for _ in range(2):
        try:
            got = known.decode(block)
        except ConnectionFailed:
            got = None
        assert got == wanted


def test_fields_that_come_again_are_not_decoded_again():
    known = StatelessFields(LARGEST)
    for timeout in range(100):
        fields = [
            (":path", "/a/long/path/that/stays"),
            ("authorization", "x" * 500),
            ("grpc-timeout", f"{timeout}m"),
        ]
        assert known.decode(stateless_block(fields, huffman=True))[2] == (b"grpc-timeout", f"{timeout}m".encode())
    assert known.decoded < 500 + 100 * 20


def test_a_header_list_has_a_limit():
    block = stateless_block([("x", "a" * 1000)] * 20, huffman=False)
    with pytest.raises(ConnectionFailed):
        StatelessFields(LARGEST).decode(block)
    with pytest.raises(ConnectionFailed):
        StatefulFields(LARGEST).decode(block)


def test_memory_forgets_what_was_not_used_of_late():
    memory: Memory[int] = Memory(100, 10_000)
    for number in range(1000):
        memory.keep(str(number).encode(), number)
        assert memory.get(b"0") == 0  # is used all the time
    assert len(memory) <= 100
    assert memory.get(b"999") == 999
    assert memory.get(b"500") is None


def test_memory_is_bounded_in_bytes_too():
    memory: Memory[int] = Memory(100, 10_000)
    for number in range(100):
        memory.keep(f"{number}".encode() * 1000, number)
    assert len(memory) <= 10
