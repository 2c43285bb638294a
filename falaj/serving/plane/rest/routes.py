"""The paths of the protocol and what each does. Nothing here knows how bytes come and go."""

from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec

from falaj.base.errors import Invalid, NotFound
from falaj.runtimes.engine import TensorSpec
from falaj.serving.plane.asking import Core, Described
from falaj.serving.plane.rest.answers import TEXT
from falaj.serving.plane.rest.apart import Apart
from falaj.serving.plane.rest.codec import Body
from falaj.serving.plane.rest.deferring import Deferrals
from falaj.serving.plane.rest.exchanges import Exchange, Line
from falaj.serving.plane.rest.heads import Head, NotAllowed, Route, segments_of
from falaj.serving.plane.rest.limits import Limits
from falaj.serving.plane.rest.predictions import Predictions

_EXTENSIONS: Final = ("binary_tensor_data", "model_repository", "model_repository(unload_dependents)")
_encode: Final = msgspec.json.encode


class _IndexRequest(msgspec.Struct):
    ready: bool = False


class _LoadRequest(msgspec.Struct):
    parameters: dict[str, Any] = {}


class Routes:
    """Finds the route of a path. `metrics` gives the text of /metrics for a token, which may be empty. Without `deferrals`
    every prediction is answered at once, whatever the client prefers; without `apart` everything is read on the loop."""

    def __init__(
        self,
        core: Core,
        *,
        version: str,
        limits: Limits | None = None,
        metrics: Callable[[str], Coroutine[Any, Any, bytes]] | None = None,
        deferrals: Deferrals | None = None,
        apart: Apart | None = None,
    ) -> None:
        self._core = core
        self._version = version
        self._metrics = metrics
        self._predictions = Predictions(core, limits or Limits(), apart)
        self._deferrals = deferrals

    def __call__(self, method: str, path: str) -> Route:
        found = self._find(segments_of(path))
        if found is None:
            raise NotFound(f"there is nothing at {path[:200]}; the protocol's paths begin with /v2")
        allowed, route = found
        if method == allowed or (method == "HEAD" and allowed == "GET"):
            return route
        shown = "GET, HEAD, OPTIONS" if allowed == "GET" else f"{allowed}, OPTIONS"
        if method == "OPTIONS":
            return Route(call=_options(shown))
        raise NotAllowed(f"{path[:200]} takes {shown}, not {method}", allowed=shown)

    def _find(self, segments: list[str]) -> tuple[str, Route] | None:
        match segments:
            case ["v2", "models", name, "infer"]:
                return "POST", self._infer(name, "")
            case ["v2", "models", name, "versions", version, "infer"]:
                return "POST", self._infer(name, version)
            case ["v2", "endpoints", name, "predict"]:
                return "POST", Route(call=self._predict, name=name, vet=self._predictions.vet, cached=True)
            case ["v2", "models", name] | ["v2", "models", name, "versions", _]:
                return "GET", Route(call=self._model, name=name, version=segments[4] if len(segments) > 3 else "")
            case ["v2", "models", name, "ready"] | ["v2", "models", name, "versions", _, "ready"]:
                return "GET", Route(call=self._model_ready, name=name, version=segments[4] if len(segments) > 4 else "")
            case ["v2", "repository", "models", name, "load" | "unload" as verb]:
                return "POST", Route(call=self._load if verb == "load" else self._unload, name=name)
            case ["v2", "requests", name] if self._deferrals is not None:
                return "GET", Route(call=self._deferrals.poll, name=name)
        call = self._plain(segments)
        return None if call is None else ("POST" if segments[-1] == "index" else "GET", Route(call=call))

    def _plain(self, segments: list[str]) -> Callable[[Line, Head, Body, float], None] | None:
        match segments:
            case ["v2"]:
                return self._server
            case ["v2", "health", "live"]:
                return self._live
            case ["v2", "health", "ready"]:
                return self._ready
            case ["v2", "repository", "index"]:
                return self._index
            case ["metrics"] if self._metrics is not None:
                return self._show_metrics
        return None

    def _infer(self, name: str, version: str) -> Route:
        return Route(call=self._infer_now_or_later, name=name, version=version, vet=self._predictions.vet, cached=True)

    def _infer_now_or_later(self, connection: Line, head: Head, body: Body, arrived: float) -> None:
        if head.deferred and self._deferrals is not None:
            self._deferrals.defer(connection, head, body, arrived, self._predictions, False)
        else:
            self._predictions.infer(connection, head, body, arrived)

    def _predict(self, connection: Line, head: Head, body: Body, arrived: float) -> None:
        if head.deferred and self._deferrals is not None:
            self._deferrals.defer(connection, head, body, arrived, self._predictions, True)
        else:
            self._predictions.predict(connection, head, body, arrived)

    def _server(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        said = {"name": "falaj", "version": self._version, "extensions": _EXTENSIONS}
        Exchange(connection, head, arrived).respond(200, _encode(said))

    def _live(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        Exchange(connection, head, arrived).respond(200, b'{"live":true}')

    def _ready(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        ready = self._core.is_ready() and not connection.shared.leaving
        Exchange(connection, head, arrived).respond(200 if ready else 503, _encode({"ready": ready}))

    def _let_in(self, connection: Line, head: Head, arrived: float) -> Exchange:
        exchange = Exchange(connection, head, arrived)
        self._core.admit(head.token, exchange.source)
        return exchange

    def _model(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        exchange = self._let_in(connection, head, arrived)
        exchange.respond(200, _encode(_metadata(self._core.describe(head.token, head.name, head.version))))

    def _model_ready(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        exchange = self._let_in(connection, head, arrived)
        ready = self._core.is_model_ready(head.token, head.name, head.version)
        exchange.respond(200 if ready else 503, _encode({"name": head.name, "ready": ready}))

    def _index(self, connection: Line, head: Head, body: Body, arrived: float) -> None:
        exchange = self._let_in(connection, head, arrived)
        only_ready = _read(body, _IndexRequest).ready
        shown = [
            {"name": one.name, "version": one.version, "state": one.state, "reason": one.reason}
            for one in self._core.index(head.token)
            if one.state == "READY" or not only_ready
        ]
        exchange.respond(200, _encode(shown))

    def _load(self, connection: Line, head: Head, body: Body, arrived: float) -> None:
        exchange = self._let_in(connection, head, arrived)
        if _read(body, _LoadRequest).parameters:
            raise Invalid("a model is loaded as it was deployed: parameters such as config and files are not taken")
        exchange.attend(_done(exchange, self._core.load(head.token, head.name)))

    def _unload(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        exchange = self._let_in(connection, head, arrived)
        exchange.attend(_done(exchange, self._core.unload(head.token, head.name)))

    def _show_metrics(self, connection: Line, head: Head, _body: Body, arrived: float) -> None:
        if self._metrics is not None:
            exchange = self._let_in(connection, head, arrived) if head.token else Exchange(connection, head, arrived)
            exchange.attend(_told(exchange, self._metrics(head.token)))


async def _told(exchange: Exchange, text: Coroutine[Any, Any, bytes]) -> None:
    exchange.respond(200, await text, TEXT)


async def _done(exchange: Exchange, work: Coroutine[Any, Any, None]) -> None:
    await work
    exchange.respond(200, b"{}")


def _options(allowed: str) -> Callable[[Line, Head, Body, float], None]:
    lines = b"allow: %b\r\n" % allowed.encode("ascii")

    def answer(connection: Line, head: Head, _body: Body, arrived: float) -> None:
        Exchange(connection, head, arrived).respond(204, b"", lines=lines)

    return answer


def _read(body: Body, kind: type[Any]) -> Any:
    """A small request; none at all is one without fields."""
    try:
        return msgspec.json.decode(body, type=kind) if len(body) else kind()
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the request is not as the protocol has it: {error}") from None


def _metadata(described: Described) -> dict[str, Any]:
    return {
        "name": described.name,
        "versions": described.versions,
        "platform": described.platform,
        "inputs": [_tensor(one) for one in described.inputs],
        "outputs": [_tensor(one) for one in described.outputs],
    }


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype, "shape": spec.shape}
