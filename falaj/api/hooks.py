"""The address that services call to start a pipeline: their headers, and the body to the letter, because it is signed."""

import re
from typing import Final

from starlette.requests import Request

from falaj.base.errors import Invalid
from falaj.base.values import ID_PATTERN
from falaj.lifecycle.operations.triggers import LONGEST_BODY, CallHook
from falaj.wire.bodies import Limits, received_body

PATH: Final = "/hooks/{hook}"
_LONGEST: Final = 2000


async def call_of(http: Request, limits: Limits) -> CallHook:
    hook = http.path_params["hook"]
    if not re.fullmatch(ID_PATTERN, hook):
        raise Invalid("A hook's address ends with 32 hexadecimal digits; `falaj pipeline trigger list` shows it.")
    body = await received_body(http.receive, limits)
    if len(body) > LONGEST_BODY:
        raise Invalid(f"The body is larger than {LONGEST_BODY} bytes.")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise Invalid("The body is not UTF-8: let the service send application/json.") from None
    return CallHook(
        hook=hook,
        body=text,
        signature=_said(http, "webhook-signature") or _said(http, "x-hub-signature-256"),
        token=_said(http, "x-gitlab-token"),
        delivery=_said(http, "webhook-id"),
        sent=_said(http, "webhook-timestamp"),
    )


def _said(http: Request, header: str) -> str:
    return http.headers.get(header, "")[:_LONGEST]
