"""What of a stored file a page may show: escaped text, a table of escaped text, or a picture of four harmless kinds.

Nothing is ever rendered as what it claims to be: a web page, a drawing in SVG or a script is shown as its text.
"""

import codecs
import csv
import io
import json
from collections.abc import Iterator
from itertools import chain, islice
from typing import Final, Literal

from falaj.base.errors import TooLarge, UnsupportedMedia
from falaj.base.operation import Download
from falaj.base.values import value

READ: Final = 64 * 1024
LARGEST_PICTURE: Final = 20 * 1024 * 1024
MOST_ROWS: Final = 200
MOST_COLUMNS: Final = 40
_SEPARATORS: Final = {".csv": ",", ".tsv": "\t"}


@value
class Preview:
    """`cut`: there is more of the file than is shown."""

    kind: Literal["picture", "table", "text", "none"]
    text: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    cut: bool = False


def preview(name: str, first: bytes, *, more: bool) -> Preview:
    """Of a file's first bytes; `more` says that it goes on behind them."""
    if picture_type(first) is not None:
        return Preview(kind="picture")
    text = _text(first, more=more)
    if text is None:
        return Preview(kind="none", cut=more)
    suffix = name[name.rfind(".") :].lower()
    if (separator := _SEPARATORS.get(suffix)) and (rows := _rows(text, separator, more=more)):
        shown = rows[:MOST_ROWS]
        return Preview(kind="table", rows=tuple(shown), cut=more or len(rows) > MOST_ROWS)
    return Preview(kind="text", text=_laid_out(text) if suffix == ".json" and not more else text, cut=more)


def picture_type(first: bytes) -> str | None:
    """By the bytes themselves, never by a name or by what somebody said of them."""
    if first.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if first.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if first.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if first.startswith(b"RIFF") and first[8:12] == b"WEBP":
        return "image/webp"
    return None


def as_picture(file: Download) -> tuple[str, Iterator[bytes]]:
    """The media type to send it under, and its bytes. Raises `UnsupportedMedia` where it is no picture."""
    if file.size is None or file.size > LARGEST_PICTURE:
        raise TooLarge(f"This file is too large to be shown here ({file.size} bytes, {LARGEST_PICTURE} at most); download it.")
    first = next(file.chunks, b"")
    if (kind := picture_type(first)) is None:
        raise UnsupportedMedia("Only PNG, JPEG, GIF and WebP are shown as pictures; download the file instead.")
    return kind, chain((first,), file.chunks)


def _text(first: bytes, *, more: bool) -> str | None:
    """As UTF-8, where it is; the last character may be cut in two."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(first, final=not more)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.removeprefix("\ufeff")


def _rows(text: str, separator: str, *, more: bool) -> list[tuple[str, ...]]:
    try:
        found = [tuple(row[:MOST_COLUMNS]) for row in islice(csv.reader(io.StringIO(text), delimiter=separator), MOST_ROWS + 2)]
    except csv.Error:
        return []
    return found[:-1] if more and len(found) < MOST_ROWS + 2 else found  # the last row may be cut in two


def _laid_out(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
