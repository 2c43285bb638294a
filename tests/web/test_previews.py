"""What of a stored file is shown, and as what."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import TooLarge, UnsupportedMedia
from falaj.base.operation import Download
from falaj.web.previews import LARGEST_PICTURE, MOST_COLUMNS, MOST_ROWS, as_picture, picture_type, preview

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
HARMFUL = [b"<html><script>1</script>", b"<svg onload='x()'/>", b"%PDF-1.7", b"GIF8", b"RIFFxxxxWAVE", b""]


def download(content: bytes, size: int | None = None) -> Download:
    halves = iter((content[:12], content[12:]))
    return Download(chunks=halves, size=len(content) if size is None else size, name="x.png", media_type="text/html")


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a..", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_a_picture_is_known_by_its_bytes_and_sent_under_their_type(first: bytes, kind: str) -> None:
    sent, chunks = as_picture(download(first))
    assert (sent, b"".join(chunks)) == (kind, first)
    assert preview("report.html", first, more=False).kind == "picture"


@pytest.mark.parametrize("content", HARMFUL)
def test_nothing_else_is_sent_as_a_picture(content: bytes) -> None:
    with pytest.raises(UnsupportedMedia):
        as_picture(download(content))


def test_a_huge_picture_is_left_to_be_downloaded() -> None:
    with pytest.raises(TooLarge):
        as_picture(download(PNG, size=LARGEST_PICTURE + 1))


def test_a_web_page_and_a_drawing_are_texts() -> None:
    for name in ("page.html", "drawing.svg"):
        shown = preview(name, b"<script>alert(1)</script>", more=False)
        assert (shown.kind, shown.text) == ("text", "<script>alert(1)</script>")


def test_json_is_laid_out_where_it_is_whole() -> None:
    document = {"a": [1, 2], "b": "ü"}
    raw = json.dumps(document, ensure_ascii=False).encode()
    assert preview("x.json", raw, more=False).text == json.dumps(document, indent=2, ensure_ascii=False)
    assert preview("x.json", raw[:5], more=True).text == raw[:5].decode()
    assert preview("x.json", b"[" * 100_000, more=False).text == "[" * 100_000


def test_a_table_is_shown_as_one_and_a_row_that_was_cut_is_not() -> None:
    shown = preview("scores.csv", b'id,words\n1,"a,b"\n2,c', more=True)
    assert (shown.kind, shown.rows, shown.cut) == ("table", (("id", "words"), ("1", "a,b")), True)
    assert preview("scores.tsv", b"a\tb\n1\t2\n", more=False).rows == (("a", "b"), ("1", "2"))
    long = preview("long.csv", b"1,2\n" * 1000, more=False)
    assert (len(long.rows), long.cut) == (MOST_ROWS, True)
    assert len(preview("wide.csv", b",".join([b"x"] * 500), more=False).rows[0]) == MOST_COLUMNS


def test_a_character_that_was_cut_in_two_is_left_out() -> None:
    assert preview("x.txt", "abcä".encode()[:-1], more=True).text == "abc"
    assert preview("x.txt", "abcä".encode()[:-1], more=False).kind == "none"


@given(st.text(max_size=20), st.binary(max_size=300), st.booleans())
def test_any_bytes_are_shown_or_not_and_never_fail(name: str, content: bytes, more: bool) -> None:
    shown = preview(name, content, more=more)
    assert (shown.kind == "picture") == (picture_type(content) is not None)
    assert "\0" not in shown.text
