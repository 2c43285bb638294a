"""Asking a revision with made-up rows, to see whether and how fast it answers."""

import ssl
import statistics
import time
from typing import Any

import httpx

from falaj.base.errors import FalajError, Unavailable
from falaj.base.values import value
from falaj.wire.statuses import kind_of


@value
class Trial:
    """`said` is the error where it does not answer, the beginning of the answer where it does."""

    revision: int
    ok: bool
    median_ms: float
    longest_ms: float
    said: str


@value
class Trials:
    items: tuple[Trial, ...]


def tried(url: str, token: str, endpoint: str, revision: int, *, calls: int, trust: ssl.SSLContext | bool = True) -> Trial:
    """One row of zeros, or of empty texts, in each tensor that the revision takes."""
    headers = {"authorization": f"Bearer {token}", "x-falaj-revision": str(revision)}
    took: list[float] = []
    try:
        with httpx.Client(base_url=url, verify=trust, timeout=30, trust_env=False, headers=headers) as http:
            described = _answer(http.get(f"/v2/models/{endpoint}/versions/{revision}"))
            body = {"inputs": [_zeros(tensor) for tensor in described["inputs"]]}
            for _ in range(calls):
                started = time.perf_counter()
                answer = _answer(http.post(f"/v2/models/{endpoint}/infer", json=body))
                took.append((time.perf_counter() - started) * 1000)
    except (FalajError, httpx.TransportError) as error:
        return Trial(revision=revision, ok=False, median_ms=0.0, longest_ms=0.0, said=str(error))
    said = str({output["name"]: output.get("data") for output in answer["outputs"]})[:80]
    return Trial(revision=revision, ok=True, median_ms=statistics.median(took), longest_ms=max(took), said=said)


def _zeros(tensor: dict[str, Any]) -> dict[str, Any]:
    shape = [max(1, length) for length in tensor["shape"]]
    count = 1
    for length in shape:
        count *= length
    nothing: dict[str, Any] = {"BYTES": "", "BOOL": False}
    return {**tensor, "shape": shape, "data": [nothing.get(tensor["datatype"], 0)] * count}


def _answer(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        raise Unavailable(f"{response.url.host} does not answer like a serving plane.") from None
    if response.status_code != 200:
        raise kind_of(response.status_code)(str(document.get("error", response.text)))
    return dict(document)
