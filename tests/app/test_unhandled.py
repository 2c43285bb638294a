"""What nobody handled is answered in our own form, and says nothing of the inside."""

import asyncio
from pathlib import Path

import httpx

from falaj.api.edge import Edge
from falaj.app.home import Home
from falaj.app.platform import open_platform
from falaj.app.settings import Settings
from falaj.base.clock import SystemClock
from falaj.base.operation import Group, Operation, Permission, Record, Scope
from falaj.base.values import Nothing
from falaj.database.binding import bind
from falaj.database.work import Context

DIVIDE = Operation(
    name="test.divide",
    summary="Divide by zero",
    method="GET",
    path="divide",
    request=Nothing,
    result=Nothing,
    permission=Permission(name="test.divide", group=Group.PUBLIC),
    scope=Scope.PLATFORM,
    record=Record.PLAIN_READ,
)


def divide(_context: Context, _request: Nothing) -> Nothing:
    raise ZeroDivisionError("a secret of the inside")


async def get(application: Edge, path: str) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as client:
        return await client.get(path)


def test_an_error_nobody_handled_is_a_problem_document_without_a_trace(tmp_path: Path) -> None:
    with open_platform(
        Home(path=tmp_path / "home"), Settings(), clock=SystemClock(), bindings=[bind(DIVIDE, divide)]
    ) as platform:
        application = platform.application(hosts={"localhost"}, tls=False)
        answer, nowhere = (asyncio.run(get(application, path)) for path in ("/v1/divide", "/v1/nowhere"))
        assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
        assert answer.json()["instance"] == answer.headers["x-request-id"]
        assert not any(word in answer.text for word in ("secret", "Traceback", "ZeroDivision"))
        assert nowhere.status_code == 404
