"""Blocks of whole records: nothing lost between them, however much is quoted, and lines counted right in large ones."""

import pytest

from falaj.tables.records import blocks, lines_in


def chunks(content: bytes, size: int) -> list[bytes]:
    return [content[at : at + size] for at in range(0, len(content), size)]


@pytest.mark.parametrize("row", [b'7,"two\nlines","say ""yes"""\n', b"7,plain\n", b'7,"' + b"x\n" * 300 + b'"\n'])
@pytest.mark.parametrize("size", [100, 5_000])
def test_a_record_is_never_cut_where_a_line_ends_between_quotes(row: bytes, size: int):
    content = row * 2_000
    found = list(blocks(iter(chunks(content, 97)), quote='"', size=size, first=50))
    assert b"".join(found) == content
    assert len(found) > 2
    assert all(len(block) % len(row) == 0 for block in found)


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_lines_of_a_large_block_are_all_counted(end: bytes):
    assert lines_in((b"abc" + end) * 300_000) == 300_000
