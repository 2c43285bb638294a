"""Texts as they are counted: of a long one its beginning and a digest, so that two stay two. Whoever counts, in datasets or in
traffic, does it so, or the same texts would be others there."""

from hashlib import blake2b
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

LONGEST: Final = 64  # bytes
_DIGEST: Final = 6


def shortened(text: str) -> str:
    """One that is short enough stays as it is."""
    if len(text) * 4 <= LONGEST and text.isascii():
        return text
    content = text.encode(errors="replace")
    if len(content) <= LONGEST:
        return content.decode()
    digest = blake2b(content, digest_size=_DIGEST).hexdigest()
    return content[: LONGEST - len(digest) - 1].decode(errors="ignore") + "~" + digest


def all_shortened(texts: pa.Array) -> pa.Array:
    """Of a column, null where it is."""
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= LONGEST:
        return texts
    coded = texts.dictionary_encode()
    return pa.array(map(shortened, coded.dictionary.to_pylist()), texts.type).take(coded.indices)
