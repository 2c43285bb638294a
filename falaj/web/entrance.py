"""Coming and going: the one-time link, the identity provider, and signing out.

A link is opened by GET and used by POST, so that a mail scanner or a preview that follows it does not use it up.
"""

import hmac
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from falaj.base.errors import FalajError, Unauthenticated
from falaj.base.values import Nothing
from falaj.governance.sessions.operations import (
    CLOSE_SESSION,
    FINISH_OIDC,
    OPEN_SESSION,
    START_OIDC,
    FinishOidc,
    OpenSession,
    Session,
)
from falaj.web.bodies import Fields
from falaj.web.desk import Desk, redirect
from falaj.web.guards import local_path
from falaj.web.operations import SIGN_IN
from falaj.web.refusals import refusal_of
from falaj.web.visits import Visit

LONGEST_CODE: Final = 200
CALLBACK: Final = "/sign-in/oidc"


class Entrance:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def routes(self) -> list[Route]:
        desk = self._desk
        return [
            Route("/sign-in", desk.reading(self.page, SIGN_IN, before_sign_in=True), methods=["GET"]),
            Route("/sign-in", desk.submitting(self.open, OPEN_SESSION, before_sign_in=True), methods=["POST"]),
            Route("/sign-in/oidc/start", desk.submitting(self.start, START_OIDC, before_sign_in=True), methods=["POST"]),
            Route(CALLBACK, desk.reading(self.finish, FINISH_OIDC, before_sign_in=True), methods=["GET"]),
            Route("/sign-out", desk.submitting(self.leave, CLOSE_SESSION), methods=["POST"]),
        ]

    def page(self, visit: Visit, problem: FalajError | None = None) -> Response:
        if isinstance(problem, Unauthenticated):
            self._desk.count_failure(visit.http)
        ways = visit.call(SIGN_IN, Nothing())
        secret = self._desk.cookies.visit(visit.http)
        response = self._desk.draw(
            visit.http,
            "sign_in.html",
            secret=secret,
            status=refusal_of(problem).status if problem else 200,
            ways=ways,
            code="" if problem else visit.query.get("code", "")[:LONGEST_CODE],
            next=local_path(visit.query.get("next")),
            left="left" in visit.query,
            problem=str(problem) if problem else "",
        )
        self._desk.cookies.keep_visit(response, secret)
        return response

    def open(self, visit: Visit, fields: Fields) -> Response:
        code = fields.get("code", [""])[0].strip()[:LONGEST_CODE]
        try:
            session = visit.call(OPEN_SESSION, OpenSession(code=code))
        except FalajError as error:
            return self.page(visit, error)
        return self._enter(visit, session, fields.get("next", [""])[0])

    def start(self, visit: Visit, _fields: Fields) -> Response:
        """The browser goes on by a refresh, not by a redirect: a form of ours may only lead to ourselves (form-action)."""
        try:
            started = visit.call(START_OIDC, Nothing())
        except FalajError as error:
            return self.page(visit, error)
        response = self._desk.draw(visit.http, "leaving.html", secret=None, target=started.url)
        self._desk.cookies.keep_oidc_state(response, started.state)
        return response

    def finish(self, visit: Visit) -> Response:
        """The provider sent the browser back. Only the browser that set out may arrive: it still holds the state."""
        state, kept = visit.query.get("state", ""), self._desk.cookies.oidc_state(visit.http)
        try:
            if not kept or not hmac.compare_digest(kept.encode(), state.encode()):
                raise Unauthenticated("This sign-in was not begun in this browser, or too long ago; begin again.")
            if "code" not in visit.query:
                raise Unauthenticated("The identity provider did not sign you in; begin again.")
            session = visit.call(FINISH_OIDC, FinishOidc(code=visit.query["code"][:4000], state=state[:4000]))
        except FalajError as error:
            return self.page(visit, error)
        return self._enter(visit, session, "")

    def leave(self, visit: Visit, _fields: Fields) -> Response:
        visit.call(CLOSE_SESSION, Nothing())
        response = redirect("/sign-in?left")
        self._desk.cookies.drop_session(response)
        response.headers["clear-site-data"] = '"cache"'  # or the Back button would show the last pages again
        return response

    def _enter(self, visit: Visit, session: Session, next: str) -> Response:
        response = redirect(local_path(next))
        self._desk.cookies.keep_session(response, session.token, expires=session.expires, now=visit.now)
        self._desk.cookies.drop_visit(response)
        return response
