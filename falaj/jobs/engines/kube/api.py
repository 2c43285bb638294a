"""The conversation with an API server: plain HTTPS with a bearer token, for objects of one namespace and the nodes."""

import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from falaj.base.errors import Conflict, Invalid, Misconfigured, Unavailable
from falaj.base.values import value

if TYPE_CHECKING:
    import httpx

Object = dict[str, Any]
_PAGE: Final = 500
_MERGE: Final = "application/merge-patch+json"
# Where Kubernetes puts what a pod needs to speak to it.
_OWN: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@value
class Access:
    """How the API server is reached. `token_file` is read at every call, for such tokens are replaced now and then; where
    neither token nor file is given, the platform runs in the cluster itself and has them where pods have them."""

    url: str
    namespace: str = "falaj"
    token: str = ""
    token_file: str = ""
    certificates: str = ""  # a file with the authorities to trust
    timeout: float = 10.0


class Api:
    """Thread-safe. Raises `Unavailable` for everything that says nothing about the objects themselves: no connection, no
    rights, too many calls, a server that fails."""

    def __init__(self, access: Access) -> None:
        import httpx  # here alone: a platform without a cluster starts without it

        if not access.url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
            raise Misconfigured(
                f"jobs.kubernetes_url is {access.url!r}: a token is sent there, so it must begin with https://."
            )
        self._access = access
        own = not (access.token or access.token_file)
        self._token_file = str(_OWN / "token") if own else access.token_file
        authorities = access.certificates or (str(_OWN / "ca.crt") if own and (_OWN / "ca.crt").exists() else "")
        try:
            trusted = ssl.create_default_context(cafile=authorities or None) if access.url.startswith("https:") else False
        except OSError as error:
            raise Misconfigured(f"jobs.kubernetes_certificates: {authorities} cannot be read: {error}.") from None
        self._broken = httpx.HTTPError
        self._client = httpx.Client(base_url=access.url, verify=trusted, timeout=access.timeout, trust_env=False)

    @property
    def namespace(self) -> str:
        return self._access.namespace

    def inside(self, group: str, kind: str) -> str:
        """The path of a kind of object in the namespace; `group` is empty for the core's own."""
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{kind}"

    def get(self, path: str) -> Object | None:
        answer = self._call("GET", path)
        return None if answer.status_code == HTTPStatus.NOT_FOUND else _read(answer)

    def list(self, path: str, **selectors: str) -> Iterator[Object]:
        """Every object, page by page. A kind that the cluster does not have has none."""
        following = ""
        while True:
            answer = self._call("GET", path, params={"limit": str(_PAGE), "continue": following, **selectors})
            if answer.status_code == HTTPStatus.NOT_FOUND:
                return
            if answer.status_code == HTTPStatus.GONE:  # the list is too old to go on with
                raise Unavailable("The cluster changed while it was being listed.")
            page = _read(answer)
            yield from page.get("items") or ()
            following = page.get("metadata", {}).get("continue", "")
            if not following:
                return

    def create(self, path: str, body: Object) -> Object | None:
        """None where there is one of that name."""
        answer = self._call("POST", path, params={"fieldValidation": "Strict"}, json=body)
        return None if _is_taken(answer) else _read(answer)

    def patch(self, path: str, body: Object) -> Object | None:
        """None where there is none. Raises `Conflict` where `body` names a resourceVersion that is not the present one."""
        answer = self._call("PATCH", path, json=body, headers={"content-type": _MERGE})
        if answer.status_code == HTTPStatus.CONFLICT:
            raise Conflict(_message(answer))
        return None if answer.status_code == HTTPStatus.NOT_FOUND else _read(answer)

    def delete(self, path: str, *, grace: int | None = None) -> None:
        """With everything that belongs to it; nothing happens where it is gone already."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        answer = self._call("DELETE", path, json=options)
        if answer.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            _read(answer)

    @contextmanager
    def lines(self, path: str, params: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """What a container wrote, as it comes; nothing where it is gone or has not begun."""
        try:
            with self._client.stream("GET", path, params=params, headers=self._headers()) as answer:
                if answer.status_code in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST):
                    yield iter(())
                    return
                if answer.is_error:
                    answer.read()
                _check(answer)
                yield answer.iter_bytes()
        except self._broken as error:
            raise Unavailable(f"The cluster at {self._access.url} broke off: {error}.") from None

    def close(self) -> None:
        self._client.close()

    def _headers(self) -> dict[str, str]:
        try:
            token = self._access.token or Path(self._token_file).read_text().strip()
        except OSError as error:
            raise Unavailable(f"The token for the cluster cannot be read from {self._token_file}: {error.strerror}.") from None
        return {"authorization": f"Bearer {token}", "accept": "application/json"}

    def _call(self, method: str, path: str, *, json: Any = None, **more: Any) -> "httpx.Response":
        headers = self._headers() | more.pop("headers", {})
        content = None if json is None else _written(json)
        if content is not None:
            headers.setdefault("content-type", "application/json")
        try:
            return self._client.request(method, path, headers=headers, content=content, **more)
        except self._broken as error:
            raise Unavailable(f"The cluster at {self._access.url} does not answer: {error}.") from None


def _written(body: Any) -> bytes:
    return json.dumps(body).encode()


def _is_taken(answer: "httpx.Response") -> bool:
    return answer.status_code == HTTPStatus.CONFLICT and _status(answer).get("reason") == "AlreadyExists"


def _status(answer: "httpx.Response") -> Object:
    try:
        told = answer.json()
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _message(answer: "httpx.Response") -> str:
    return str(_status(answer).get("message") or answer.reason_phrase)[:1000]


def _check(answer: "httpx.Response") -> None:
    if not answer.is_error:
        return
    code, told = answer.status_code, _message(answer)
    if code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise Unavailable(f"The cluster does not let the platform do this: {told} See the rights in docs/kueue.md.")
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR or code in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT):
        raise Unavailable(f"The cluster cannot do this now ({code}): {told}.")
    raise Invalid(f"The cluster refuses this: {told}.")


def _read(answer: "httpx.Response") -> Object:
    _check(answer)
    told = _status(answer)
    if not told:
        raise Unavailable(f"The cluster answered {answer.status_code} with something that is no object.")
    return told
