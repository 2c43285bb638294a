"""Endpoints for the pages to show, deployed by the platform's own operations, and a plane that says what tests want."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.serving.latencies import BUCKETS
from falaj.serving.operations import endpoints, planes
from falaj.serving.operations.loads import PlaneLoad
from tests.web import tracked
from tests.web.conftest import Site

IDLE = PlaneLoad()


def version(site: Site, model: str = "card-fraud", *, project: str = "fraud") -> Any:
    """A version that can be served as it is, of a run of its own."""
    return tracked.register(site, tracked.run(site, 0, "trained", project=project), model, project=project)


def deploy(
    site: Site, number: int, name: str = "scores", *, model: str = "card-fraud", project: str = "fraud", **more: Any
) -> Any:
    request = endpoints.Deploy(project=project, endpoint=name, model=model, version=number, **more)
    return site.call(endpoints.DEPLOY_REVISION, request).endpoint


def show(site: Site, name: str = "scores", project: str = "fraud") -> Any:
    return site.call(endpoints.SHOW_ENDPOINT, endpoints.OneEndpoint(project=project, endpoint=name))


class Plane:
    """A plane as the platform knows it: it answers for what it is told to, at an address that it reports."""

    def __init__(self, site: Site, name: str = "first", url: str = "http://127.0.0.1:9") -> None:
        made = site.call(planes.CREATE_PLANE, planes.CreatePlane(plane=name, zone="home", days=7))
        self._site, self._token, self._url = site, made.token, url
        self._run, self._number = new_id(site.platform.clock.now()), 0

    def state(self) -> planes.SignedState:
        found: planes.SignedState = self._site.call(planes.READ_STATE, planes.ReadState(), token=self._token)
        return found

    def report(
        self,
        endpoint: Any,
        *,
        calls: tuple[Any, ...] = (),
        watched: tuple[planes.WatchReport, ...] = (),
        problems: tuple[str, ...] = (),
        load: PlaneLoad = IDLE,
        **did: Any,
    ) -> None:
        """Every revision of the split is ready, and did this."""
        self._number += 1
        state = self.state()
        report = planes.Report(
            run=self._run,
            number=self._number,
            url=self._url,
            version="1",
            workers=1,
            serial=state.serial,
            seconds=1.0,
            revisions=tuple(
                planes.RevisionReport(**({"endpoint": endpoint.id, "revision": arm.revision, "ready": True} | did))
                for arm in endpoint.arms
            ),
            calls=calls,
            watched=watched,
            problems=problems,
            load=load,
        )
        self._site.call(planes.SEND_REPORT, report, token=self._token)


def did(requests: int, *, errors: int = 0, shed: int = 0) -> dict[str, Any]:
    """Calls that took about as long as the middle bucket says."""
    latencies = tuple(requests if bucket == BUCKETS // 2 else 0 for bucket in range(BUCKETS))
    return {
        "requests": requests,
        "errors": errors,
        "shed": shed,
        "rows": requests * 2,
        "batches": requests,
        "latencies": latencies,
    }


def call(endpoint: Any, id: str, at: Moment, **more: Any) -> planes.CallReport:
    given: dict[str, Any] = {
        "revision": 1,
        "caller": "somebody",
        "status": "ok",
        "ms": 1.5,
        "inputs": '{"age": 1}',
        "outputs": "[0.5]",
    }
    return planes.CallReport(endpoint=endpoint.id, id=id, at=at, **(given | more))


class Answers:
    """What stands where the plane answers: it keeps what it was asked, and answers what it was told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], Any]] = []
        self.status, self.content = 200, json.dumps({"predictions": [0.25]}).encode()
        self.headers = {"x-falaj-revision": "1", "x-falaj-model-version": "1"}
        self.url = ""


@contextmanager
def answering() -> Iterator[Answers]:
    answers = Answers()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            answers.asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}, json.loads(body)))
            self.send_response(answers.status)
            for name, text in answers.headers.items():
                self.send_header(name, text)
            self.send_header("content-length", str(len(answers.content)))
            self.end_headers()
            self.wfile.write(answers.content)

        def log_message(self, *_words: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    answers.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
