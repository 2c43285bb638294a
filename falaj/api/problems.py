"""Errors as problem details (RFC 9457): what happened, why, and what to do next; never a stack trace."""

import json
from http import HTTPStatus

from starlette.responses import Response

from falaj.base.errors import FalajError, Forbidden, TemporaryError
from falaj.wire.statuses import status_of


def problem(status: int, detail: str, *, request_id: str, rule: str = "", headers: dict[str, str] | None = None) -> Response:
    document = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request_id,
    }
    if rule:
        document["rule"] = rule
    return Response(json.dumps(document), status, headers=headers, media_type="application/problem+json")


def problem_of(error: FalajError, request_id: str) -> Response:
    headers = {}
    if isinstance(error, TemporaryError):
        headers["retry-after"] = str(max(1, round(error.delay)))
    status = status_of(error)
    if status == 401:
        headers["www-authenticate"] = 'Bearer realm="falaj"'
    rule = error.rule if isinstance(error, Forbidden) else ""
    return problem(status, str(error), request_id=request_id, rule=rule, headers=headers)
