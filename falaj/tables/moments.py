"""Times as text, with an offset or without, as moments."""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from falaj.base.errors import Invalid

MOMENT: Final = pa.timestamp("us", "UTC")
_OFFSET: Final = r"([Zz]|[+-]\d{2}(:?\d{2})?)$"
_DATE: Final = r"^\d{4}-\d{2}-\d{2}$"
_MOMENT: Final = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?\s*([Zz]|[+-]\d{2}(:?\d{2})?)?)?$"
_FIRST: Final = 64
_UTC: Final = ("UTC", "Etc/UTC", "Z")
_WRITE: Final = "Write times as 2026-11-15T09:30:00Z or with their offset"


def parsed(texts: pa.Array, zone: str | None, *, name: str, first_row: int) -> pa.Array:
    """Each with its own offset; those without one as clocks in `zone` showed them. Raises `Invalid`, naming the row."""
    if (found := _all_alike(texts, zone, name)) is not None:
        return found
    nothing = pa.scalar(None, texts.type)
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.if_else(pc.equal(texts, ""), nothing, texts)
    has_offset = pc.and_(pc.match_substring_regex(texts, _OFFSET), pc.invert(pc.match_substring_regex(texts, _DATE)))
    zoned = _cast(pc.if_else(has_offset, texts, nothing), MOMENT, name, first_row)
    bare = pc.if_else(has_offset, nothing, texts)
    if bare.null_count == len(bare):
        return zoned
    if zone is None:
        row = pc.index(pc.is_valid(bare), True).as_py()
        raise Invalid(
            f"Column {name!r} has in row {first_row + row} {bare[row].as_py()[:60]!r}, a time without a zone. Say whose clocks "
            f"showed it (`--time-zone Asia/Muscat`, or UTC). {_WRITE}."
        )
    return pc.coalesce(zoned, assumed(_cast(bare, pa.timestamp("us"), name, first_row), zone, name=name))


def _all_alike(texts: pa.Array, zone: str | None, name: str) -> pa.Array | None:
    """The usual column, where every time has an offset or none has, without looking at each. The first few tell which: Arrow
    takes long to say of a whole column that it is not so."""
    if _read(texts.slice(0, _FIRST), MOMENT) is not None:
        return _read(texts, MOMENT)
    if zone is None or (bare := _read(texts, pa.timestamp("us"))) is None:
        return None
    return assumed(bare, zone, name=name)


def _read(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


def assumed(times: pa.Array, zone: str, *, name: str) -> pa.Array:
    """Times without a zone as clocks in `zone` showed them: an hour that they showed twice is the first, one that they leapt
    over is refused."""
    if zone in _UTC:
        return times.cast(pa.timestamp("us")).cast(MOMENT)
    try:
        return pc.assume_timezone(times, zone, ambiguous="earliest", nonexistent="raise").cast(MOMENT)
    except pa.ArrowInvalid as error:
        raise Invalid(f"Column {name!r} has a time that clocks in {zone} never showed: {error}.") from None


def looks_like(texts: pa.Array) -> str:
    """`date` or `moment`, where every text that there is looks like one; else nothing."""
    if texts.null_count == len(texts):
        return ""
    for word, pattern in (("date", _DATE), ("moment", _MOMENT)):
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            return word
    return ""


def _cast(texts: pa.Array, kind: pa.DataType, name: str, first_row: int) -> pa.Array:
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        for row, text in enumerate(texts):
            try:
                text.cast(kind)
            except pa.ArrowInvalid:
                raise Invalid(
                    f"Column {name!r} has in row {first_row + row} {str(text)[:60]!r}, which is no time. {_WRITE}."
                ) from None
        raise
