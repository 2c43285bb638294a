"""The console's routes, made from the declarations in `sitemap.py`. Each says which operation it stands for."""

import secrets
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from falaj.base.clock import Clock
from falaj.base.errors import FalajError, NotFound, Unauthenticated
from falaj.base.operation import Operation, Record
from falaj.base.values import Nothing
from falaj.governance.identity.operations import WHOAMI
from falaj.operations.dispatcher import Dispatcher
from falaj.operations.messages import adapter
from falaj.web.answers import for_scripts
from falaj.web.assets import PublicFace
from falaj.web.bodies import Fields, fields_of
from falaj.web.desk import Desk, filled, redirect, standing_for
from falaj.web.entrance import Entrance
from falaj.web.forms import FormState, Mistyped, request_from, words_of
from falaj.web.guards import local_path
from falaj.web.operations import ASSET, OneAsset
from falaj.web.pages import Data, Fetch, Form, Forward, Load, Page, Picture, Upload
from falaj.web.previews import as_picture
from falaj.web.refusals import Refusal, refusal_of
from falaj.web.serving.predictor import Predictor
from falaj.web.sitemap import DONE, PAGES
from falaj.web.visits import Visit
from falaj.wire.bodies import Limits, upload_chunks
from falaj.wire.rates import RateLimits
from falaj.wire.uploads import UploadSlots

FOR_EVER: Final = "public, max-age=31536000, immutable"
AS_FILE: Final = {"content-security-policy": "default-src 'none'; sandbox", "cache-control": "no-store"}


class Console:
    """Makes the console's routes. Sign in at `/sign-in?code=CODE`; the identity provider returns to `/sign-in/oidc`."""

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
        limits: Limits | None = None,
    ) -> None:
        self._desk = Desk(
            face,
            dispatcher,
            clock=clock,
            rates=rates,
            uploads=uploads,
            predictor=predictor,
            url=url,
            tls=tls,
            limits=limits or Limits(),
        )

    def routes(self) -> list[Route]:
        desk = self._desk
        routes = [Route("/assets/{name}", desk.reading(self._asset, ASSET, before_sign_in=True), methods=["GET"], name="asset")]
        routes += Entrance(desk).routes()
        for page in PAGES:
            show = desk.reading(partial(self._show, page), *page.operations)
            routes.append(Route(page.path, show, methods=["GET"], name=f"page {page.path}"))
            for form in page.forms:
                submit = desk.submitting(partial(self._submit, page, form), form.operation)
                routes += self._form_routes(page, form.operation, submit)
            if page.upload is not None:
                receive = desk.receiving(partial(self._receive, page, page.upload), page.upload.operation)
                routes += self._form_routes(page, page.upload.operation, receive)
            for fetch in page.fetches:
                send = desk.reading(partial(self._send, fetch), fetch.operation)
                routes.append(Route(fetch.path, send, methods=["GET"], name=f"fetch {fetch.path}"))
            for picture in page.pictures:
                paint = desk.reading(partial(self._paint, picture), picture.operation)
                routes.append(Route(picture.path, paint, methods=["GET"], name=f"picture {picture.operation.name}"))
            for data in page.data:
                tell = desk.telling(partial(self._tell, data), data.operation)
                routes.append(Route(data.path, tell, methods=["GET"], name=f"data {data.path}"))
            for forward in page.forwards:
                lead = desk.reading(partial(self._lead, forward), forward.operation)
                routes.append(Route(forward.path, lead, methods=["GET"], name=f"forward {forward.operation.name}"))
        return routes

    def refuse(self, http: Request, status: int, message: str) -> Response:
        """An error page, for what no route of the console answered."""
        return self._desk.refuse(http, Refusal(status=status, message=message))

    def _form_routes(self, page: Page, operation: Operation[Any, Any], submit: Any) -> list[Route]:
        """Who comes to a form's address by hand is shown the page the form is on."""

        async def back(http: Request) -> Response:
            query = f"?{http.url.query}" if page.about and http.url.query else ""
            return redirect(filled(page.path, http.path_params) + query)

        path = page.form_path(operation)
        return [
            Route(path, submit, methods=["POST"], name=f"form {page.path} {operation.name}"),
            Route(path, standing_for(back, operation), methods=["GET"], name=f"back {page.path} {operation.name}"),
        ]

    def _asset(self, visit: Visit) -> Response:
        file = visit.call(ASSET, OneAsset(name=visit.path["name"][:100]))
        headers = {"cache-control": FOR_EVER, "content-security-policy": "default-src 'none'"}
        return Response(b"".join(file.chunks), headers=headers, media_type=file.media_type)

    # Pages

    def _show(self, page: Page, visit: Visit, *, status: int = 200) -> Response:
        visit.path |= {name: visit.query.get(name, "") for name in page.about}
        visit.arrive(visit.call(WHOAMI, Nothing()))
        self._load(page, visit)
        for form in page.forms:
            visit.forms.setdefault(form.operation.name, self._state(page, form.operation, visit))
        if page.upload is not None:
            visit.forms[page.upload.operation.name] = self._state(page, page.upload.operation, visit)
        troubled = [visit.forms[form.operation.name] for form in page.forms if not form.beside]
        return self._desk.draw(
            visit.http,
            page.template,
            secret=visit.credentials,
            status=status,
            here=_address(page.path, page, visit),
            section=page.section,
            me=visit.standing.me,
            may=visit.standing.may,
            standing=visit.standing,
            path=visit.path,
            forms=visit.forms,
            done=DONE.get(visit.query.get("done", ""), ""),
            troubles=[state.problem or next(iter(state.problems.values())) for state in troubled if state.failed],
            refused=visit.refused,
            **visit.loaded,
            **page.derive(visit),
        )

    def _load(self, page: Page, visit: Visit) -> None:
        """What the reader's standing does not promise stays None; so does what is refused or fails beyond that, if it can."""
        first, *_ = page.loads
        wanted = {name for name, load in page.loads.items() if load.when(visit)} or {first}
        visit.loaded = dict.fromkeys(page.loads)
        for name, load in page.loads.items():
            if name not in wanted:
                continue
            try:
                visit.loaded[name] = _loaded(load, visit)
            except Mistyped as error:
                if name == first or load.essential:
                    raise _of_address(error, visit) from None
                visit.refused[name] = words_of(error)
            except Unauthenticated:
                raise
            except FalajError as error:
                if name == first or load.essential:
                    raise
                visit.refused[name] = words_of(error)

    def _state(self, page: Page, operation: Operation[Any, Any], visit: Visit) -> FormState:
        action = _address(page.form_path(operation), page, visit)
        return FormState(action=action, key=secrets.token_hex(16), values={}, problems={})

    # Forms

    def _submit(self, page: Page, form: Form, visit: Visit, fields: Fields) -> Response:
        operation, status = form.operation, 200
        visit.path |= {name: visit.query.get(name, "") for name in page.about}
        visit.submitted = {name: texts[0] for name, texts in fields.items()}
        problem, problems, result = "", {}, None
        key = fields.get("_key", [""])[0] if operation.record is Record.CHANGE else ""
        try:
            request = form.request(operation, form.before(visit, fields), visit.path)
            result = form.after(visit, visit.call(operation, request, key=key))
        except Unauthenticated:
            raise
        except Mistyped as error:
            status, problem, problems = 400, str(error), error.fields
        except FalajError as error:
            status, problem = refusal_of(error).status, str(error)
        target = form.then(visit, result) if status == 200 and form.then is not None else ""
        if target:
            outcome = f"{operation.name}:{form.told(result)}"
            return redirect(f"{target}{'&' if '?' in target else '?'}done={outcome if outcome in DONE else operation.name}")
        fresh = self._state(page, operation, visit)
        visit.forms[operation.name] = FormState(
            action=fresh.action,
            key=fresh.key,
            values=fields if status != 200 else {},
            problem=problem,
            problems=problems,
            result=result,
        )
        return self._show(page, visit, status=status)

    def _receive(self, page: Page, upload: Upload, visit: Visit) -> Response:
        fields = fields_of(visit.http.scope["query_string"])
        try:
            request = request_from(upload.operation, fields, visit.path)
        except Mistyped as error:
            return Response("; ".join(f"{name}: {text}" for name, text in error.fields.items()), 400, media_type="text/plain")
        visit.call(upload.operation, request, chunks=upload_chunks(visit.http, self._desk.limits))
        return Response(headers={"x-next-page": f"{filled(page.path, visit.path)}?done={upload.operation.name}"})

    def _send(self, fetch: Fetch, visit: Visit) -> Response:
        request = _asked_by_address(fetch.operation, visit)
        file = fetch.file(visit.call(fetch.operation, request))
        headers = AS_FILE | {"content-disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}"}
        if file.size is not None:
            headers["content-length"] = str(file.size)
        return StreamingResponse(file.chunks, headers=headers, media_type=file.media_type)

    def _paint(self, picture: Picture, visit: Visit) -> Response:
        """Never under the type that somebody said it has: under that of the bytes, one of four, or not at all."""
        request = _asked_by_address(picture.operation, visit)
        kind, chunks = as_picture(visit.call(picture.operation, request))
        return StreamingResponse(chunks, headers=AS_FILE | {"content-disposition": "inline"}, media_type=kind)

    def _lead(self, forward: Forward, visit: Visit) -> Response:
        """Never out of the console, whatever was stored."""
        found = visit.call(forward.operation, _asked_by_address(forward.operation, visit, with_query=False))
        return redirect(local_path(forward.target(found)))

    def _tell(self, data: Data, visit: Visit) -> Response:
        result = visit.call(data.operation, data.request(visit))
        document = for_scripts(adapter(data.operation.result).dump_json(result))
        return Response(document, headers=AS_FILE, media_type="application/json")


def _loaded(load: Load, visit: Visit) -> Any:
    wanted = load.request(visit)
    if load.every and wanted is not None:
        return _whole(load, visit, wanted)
    if not load.each:
        return None if wanted is None else visit.call(load.operation, wanted)
    found = {}
    for request in wanted:
        with suppress(NotFound):
            found[request] = visit.call(load.operation, request)
    return found


def _whole(load: Load, visit: Visit, request: Any) -> Any:
    page = visit.call(load.operation, request)
    items = list(page.items)
    while page.next:
        page = visit.call(load.operation, replace(request, cursor=page.next))
        items.extend(page.items)
    return replace(page, items=tuple(items))


def _asked_by_address(operation: Operation[Any, Any], visit: Visit, *, with_query: bool = True) -> Any:
    try:
        return request_from(operation, fields_of(visit.http.scope["query_string"]) if with_query else {}, visit.path)
    except Mistyped as error:
        raise _of_address(error, visit) from None


def _of_address(error: Mistyped, visit: Visit) -> FalajError:
    """There is no form to look at again where all that is wrong are the names in the address: nothing is called so."""
    if error.fields.keys() <= visit.path.keys():
        return NotFound("Nothing has this address. Look for it from its project; a link may have been cut short.")
    return error


def _address(path: str, page: Page, visit: Visit) -> str:
    """The page's own address, or that of one of its forms: with what says which thing it is about."""
    query = urlencode({name: visit.path[name] for name in page.about})
    return filled(path, visit.path) + (f"?{query}" if query else "")
