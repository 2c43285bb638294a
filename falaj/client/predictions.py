"""Asking a serving plane, in plain records."""

import ssl
from collections.abc import Sequence
from typing import Any

import httpx

from falaj.base.errors import PermanentError, Unavailable
from falaj.wire.statuses import kind_of


def predict(
    url: str,
    token: str,
    endpoint: str,
    records: Sequence[Any],
    *,
    key: str = "",
    revision: int = 0,
    trust: ssl.SSLContext | bool = True,
) -> dict[str, Any]:
    """The plane's answer. What it refuses is raised as the error it was."""
    headers = {"authorization": f"Bearer {token}"}
    if key:
        headers["x-falaj-key"] = key
    if revision:
        headers["x-falaj-revision"] = str(revision)
    try:
        with httpx.Client(verify=trust, timeout=60, trust_env=False) as http:
            body = {"rows" if records and isinstance(records[0], list) else "records": list(records)}
            response = http.post(f"{url}/v2/endpoints/{endpoint}/predict", json=body, headers=headers)
    except httpx.TransportError as error:
        raise Unavailable(f"No answer from {url}: {error}.") from error
    try:
        document = response.json()
    except ValueError:
        raise PermanentError(f"{url} does not answer like a serving plane; is the address right?") from None
    if response.status_code != 200:
        raise kind_of(response.status_code)(str(document.get("error", response.text)))
    return dict(document)
