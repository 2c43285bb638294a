"""What every endpoint of the console shares: guards before, a worker thread for the work, and an error page after."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import quote, urlencode

import anyio
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from falaj.base.clock import Clock
from falaj.base.errors import FalajError, NotFound, Unauthenticated
from falaj.base.operation import Operation, Record
from falaj.operations.dispatcher import Dispatcher
from falaj.web.assets import PublicFace
from falaj.web.bodies import Fields, form_fields
from falaj.web.cookies import Cookies, direction, keep_direction, theme
from falaj.web.guards import PAGE_HEADERS, check_csrf, check_not_elsewhere, check_origin, csrf_token
from falaj.web.refusals import Refusal, refusal_of
from falaj.web.rendering import Renderer
from falaj.web.serving.predictor import Predictor
from falaj.web.visits import Visit
from falaj.wire.bodies import Limits
from falaj.wire.rates import RateLimits
from falaj.wire.uploads import UploadSlots

THREADS: Final = 16
Answer = Callable[[Visit], Response]
FormAnswer = Callable[[Visit, Fields], Response]
Endpoint = Callable[[Request], Awaitable[Response]]
log = logging.getLogger(__name__)


class Desk:
    """`url` is how users reach the platform; under TLS (`tls`) cookies are kept more strictly."""

    def __init__(
        self,
        face: PublicFace,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        rates: RateLimits,
        uploads: UploadSlots,
        predictor: Predictor,
        url: str,
        tls: bool,
        limits: Limits,
    ) -> None:
        self.face = face
        self.clock = clock
        self.url = url
        self.tls = tls
        self.limits = limits
        self.cookies = Cookies(tls=tls)
        self._dispatcher = dispatcher
        self._rates = rates
        self._uploads = uploads
        self._predictor = predictor
        self._renderer = Renderer(face.assets, version=face.version)
        self._threads: anyio.CapacityLimiter | None = None
        self._upload_threads: anyio.CapacityLimiter | None = None

    # Endpoints

    def reading(
        self,
        answer: Answer,
        operation: Operation[Any, Any],
        *others: Operation[Any, Any],
        before_sign_in: bool = False,
    ) -> Endpoint:
        """An endpoint that only reads. Where reading leaves a trace in the ledger, no other site may cause it."""
        leaves_trace = any(each.record is Record.SENSITIVE_READ for each in (operation, *others))

        async def read(visit: Visit) -> Response:
            if leaves_trace:
                check_not_elsewhere(visit.http)
            return await self._in_thread(answer, visit)

        async def endpoint(http: Request) -> Response:
            return await self._guarded(http, read, before_sign_in=before_sign_in)

        return standing_for(endpoint, operation, *others)

    def submitting(self, answer: FormAnswer, operation: Operation[Any, Any], *, before_sign_in: bool = False) -> Endpoint:
        """An endpoint that takes a form of our own pages, and nobody else's."""

        async def submit(visit: Visit) -> Response:
            check_origin(visit.http)
            secret = self.cookies.visit(visit.http) if before_sign_in else self._session(visit)
            fields = await form_fields(visit.http, self.limits)
            check_csrf(secret, visit.http.headers.get("x-csrf-token") or fields.get("_csrf", [""])[0])
            return await self._in_thread(answer, visit, fields)

        async def endpoint(http: Request) -> Response:
            return await self._guarded(http, submit, before_sign_in=before_sign_in)

        return standing_for(endpoint, operation)

    def receiving(self, answer: Answer, operation: Operation[Any, Any]) -> Endpoint:
        """An endpoint that takes a file as its bare body."""

        async def receive(visit: Visit) -> Response:
            check_origin(visit.http)
            check_csrf(self._session(visit), visit.http.headers.get("x-csrf-token", ""))
            with self._uploads.hold(visit.credentials):
                return await self._in_upload_thread(answer, visit)

        return standing_for(self._told_plainly(receive), operation)

    def telling(self, answer: Answer, operation: Operation[Any, Any]) -> Endpoint:
        """An endpoint that answers a page's own script, and nobody else's."""

        async def tell(visit: Visit) -> Response:
            check_not_elsewhere(visit.http)
            self._session(visit)
            return await self._in_thread(answer, visit)

        return standing_for(self._told_plainly(tell), operation)

    def _told_plainly(self, answer: Callable[[Visit], Awaitable[Response]]) -> Endpoint:
        """Errors that a script reads are plain text."""

        async def endpoint(http: Request) -> Response:
            try:
                return await self._admitted(http, answer)
            except FalajError as error:
                refusal = refusal_of(error)
                headers = {"retry-after": str(refusal.delay)} if refusal.delay else None
                return Response(str(error), refusal.status, headers=headers, media_type="text/plain")

        return endpoint

    def count_failure(self, http: Request) -> None:
        """Wrong credentials count against the address they came from."""
        self._rates.failed(address_of(http))

    async def _admitted(
        self, http: Request, answer: Callable[[Visit], Awaitable[Response]], *, before_sign_in: bool = False
    ) -> Response:
        """Before sign-in a session counts for nothing, or an invented one would lead around the limit for strangers."""
        credentials = None if before_sign_in else self.cookies.session(http)
        visit = Visit(http, self._dispatcher, self._predictor, credentials=credentials, now=self.clock.now())
        self._rates.admit(visit.credentials, address_of(http))
        if b"%" in http.scope.get("raw_path", b""):
            raise NotFound("No page of the console has an address like this.")
        try:
            return await answer(visit)
        except Unauthenticated:
            self.count_failure(http)
            raise

    async def _guarded(
        self, http: Request, answer: Callable[[Visit], Awaitable[Response]], *, before_sign_in: bool
    ) -> Response:
        try:
            return await self._admitted(http, answer, before_sign_in=before_sign_in)
        except Unauthenticated:
            return self.to_sign_in(http)
        except FalajError as error:
            return self.refuse(http, refusal_of(error))
        except Exception:
            log.exception("page %s failed", http.url.path)
            return self.refuse(http, Refusal(status=500, message="Nothing was lost. The log has it under this request's id."))

    async def _in_thread(self, answer: Callable[..., Response], *arguments: Any) -> Response:
        """Operations are synchronous; so is drawing."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(answer, *arguments, limiter=self._threads)

    async def _in_upload_thread(self, answer: Answer, visit: Visit) -> Response:
        """Apart from the pages' threads, so that pages go on while files crawl in."""
        if self._upload_threads is None:
            self._upload_threads = anyio.CapacityLimiter(self._uploads.total)
        return await anyio.to_thread.run_sync(answer, visit, limiter=self._upload_threads)

    def _session(self, visit: Visit) -> str:
        if visit.credentials is None:
            raise Unauthenticated("Your session has ended; sign in again.")
        return visit.credentials

    # Answers

    def draw(
        self, http: Request, template: str, *, secret: str | None, status: int = 200, here: str = "", **facts: Any
    ) -> Response:
        """`secret` is what the page's forms are bound to; `here` is the page's own address."""
        text = self._renderer.draw(
            template,
            theme=theme(http),
            direction=direction(http),
            csrf=csrf_token(secret) if secret else "",
            here=here or http.url.path,
            query=dict(http.query_params),
            url=self.url,
            now=self.clock.now(),
            **facts,
        )
        response = Response(text, status, headers=PAGE_HEADERS, media_type="text/html")
        keep_direction(http, response, tls=self.tls)
        return response

    def refuse(self, http: Request, refusal: Refusal) -> Response:
        request_id = http.scope.get("state", {}).get("request_id", "")
        response = self.draw(http, "error.html", secret=None, status=refusal.status, refusal=refusal, request_id=request_id)
        if refusal.delay:
            response.headers["retry-after"] = str(refusal.delay)
        return response

    def to_sign_in(self, http: Request) -> Response:
        """Where the session has ended, sign in and come back; what a form wanted to do is not repeated."""
        here = http.url.path + (f"?{http.url.query}" if http.url.query else "")
        back = here if http.method == "GET" else http.url.path.partition("/-/")[0] or "/"
        target = f"/sign-in?{urlencode({'next': back})}"
        if http.headers.get("hx-request"):
            response = Response(status_code=401, headers={"hx-redirect": target})
        else:
            response = redirect(target)
        self.cookies.drop_session(response)
        return response


def address_of(http: Request) -> str:
    return http.client.host if http.client else ""


def standing_for(endpoint: Endpoint, operation: Operation[Any, Any], *others: Operation[Any, Any]) -> Endpoint:
    endpoint.operation = operation  # type: ignore[attr-defined]
    endpoint.operations = (operation, *others)  # type: ignore[attr-defined]
    return endpoint


def redirect(path: str) -> Response:
    return RedirectResponse(path, 303, headers=PAGE_HEADERS)


def filled(path: str, names: dict[str, str]) -> str:
    return path.format(**{name: quote(text, safe="") for name, text in names.items()})
