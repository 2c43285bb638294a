"""What a form sends, as fields."""

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from falaj.base.errors import Invalid
from falaj.wire.bodies import Limits, whole_body

MOST_FIELDS: Final = 200
Fields = dict[str, list[str]]


async def form_fields(http: Request, limits: Limits) -> Fields:
    kind = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid("The console takes forms, sent as application/x-www-form-urlencoded. Programs use the API under /v1.")
    return fields_of(await whole_body(http, limits))


def fields_of(encoded: bytes) -> Fields:
    """The fields of a form or a query; a name may come more than once."""
    try:
        pairs = parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except (UnicodeError, ValueError):
        raise Invalid("The form is not well-formed: name=value pairs in UTF-8, percent-encoded.") from None
    fields: Fields = {}
    for name, text in pairs:
        fields.setdefault(name, []).append(text.replace("\r\n", "\n"))
    return fields
