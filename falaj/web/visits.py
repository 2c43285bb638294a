"""One request to the console on its way: who asks, for what, and what has been loaded so far."""

from typing import Any

from starlette.requests import Request

from falaj.base.clock import Moment
from falaj.base.operation import Operation, Req, Res
from falaj.governance.identity.operations import Me
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.web.forms import FormState
from falaj.web.serving.predictor import Predictor
from falaj.web.standing import Standing


class Visit:
    """Belongs to one request. `loaded` grows as the page's loads run, so a later one can build on an earlier one."""

    def __init__(
        self, http: Request, dispatcher: Dispatcher, predictor: Predictor, *, credentials: str | None, now: Moment
    ) -> None:
        self.http = http
        self.predictor = predictor
        self.now = now
        self.credentials = credentials
        self.request_id: str = http.scope.get("state", {}).get("request_id", "")
        self.path: dict[str, str] = dict(http.path_params)
        self.query: dict[str, str] = dict(http.query_params)
        self.loaded: dict[str, Any] = {}
        self.refused: dict[str, str] = {}
        self.forms: dict[str, FormState] = {}
        self.submitted: dict[str, str] = {}
        self._dispatcher = dispatcher
        self._standing: Standing | None = None

    @property
    def project(self) -> str:
        return self.path.get("project", "")

    @property
    def operation_names(self) -> list[str]:
        return sorted(operation.name for operation in self._dispatcher.operations)

    @property
    def standing(self) -> Standing:
        if self._standing is None:
            raise RuntimeError("who asks is known once the shell was loaded")
        return self._standing

    def asked(self, name: str) -> list[str]:
        """Every text that the query has under a name."""
        return self.http.query_params.getlist(name)

    def arrive(self, me: Me) -> None:
        self._standing = Standing(me=me)

    def call(self, operation: Operation[Req, Res], request: Req, *, key: str = "", chunks: Any = None) -> Res:
        call = Call(credentials=self.credentials, request_id=self.request_id, idempotency_key=key, chunks=chunks)
        return self._dispatcher.call(operation, request, call)
