"""A whole platform in a temporary home, served to a real browser and to plain HTTP clients."""

import html
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import httpx
import pytest
import uvicorn
from jinja2 import Environment
from jinja2.bccache import Bucket, BytecodeCache
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from falaj.app.home import Home
from falaj.app.platform import Platform, open_platform
from falaj.app.server import listen
from falaj.app.settings import DataSettings, LimitSettings, OidcSection, PlatformSettings, Settings
from falaj.base.clock import SystemClock
from falaj.base.ids import new_id
from falaj.base.operation import Operation
from falaj.governance.identity.member_operations import ADD_MEMBER, ADD_PLATFORM_MEMBER, AddMember, PlatformMember
from falaj.governance.identity.operations import CREATE_USER, CreateUser
from falaj.governance.projects.operations import CREATE_PROJECT, CreateProject
from falaj.governance.roles import Role
from falaj.governance.sessions.operations import OPEN_SESSION, OpenSession
from falaj.operations.dispatcher import Call
from falaj.web import rendering
from tests.servers.migrating import migrations_as_before
from tests.servers.processes import NO_TLS

WAIT = 15


class Site:
    """A running console. `call` is the platform's own way in, for arranging and for looking at what a page did."""

    def __init__(self, platform: Platform, url: str) -> None:
        self.platform = platform
        self.url = url
        self.owner = platform.owner_token()

    def call(self, operation: Operation[Any, Any], request: Any, *, token: str | None = None, data: bytes | None = None) -> Any:
        chunks = None if data is None else iter((data,))
        call = Call(credentials=token or self.owner, request_id=new_id(self.platform.clock.now()), chunks=chunks)
        return self.platform.dispatcher.call(operation, request, call)

    def link(self) -> str:
        return f"{self.url}/sign-in?code={self.platform.sign_in_code(self.owner)}"

    def project(self, name: str, description: str = "", zones: tuple[str, ...] = ("home",)) -> Any:
        return self.call(CREATE_PROJECT, CreateProject(name=name, zones=zones, description=description))

    def person(
        self, name: str, *, roles: dict[str, Role] | None = None, platform: Role | None = None, display: str = ""
    ) -> str:
        """Invite somebody, give roles, and sign in: the session's token."""
        invited = self.call(CREATE_USER, CreateUser(name=name, display=display))
        for project, role in (roles or {}).items():
            self.call(ADD_MEMBER, AddMember(project=project, member=name, role=role))
        if platform is not None:
            self.call(ADD_PLATFORM_MEMBER, PlatformMember(member=name, role=platform))
        return str(self.call(OPEN_SESSION, OpenSession(code=invited.code)).token)

    def session(self) -> str:
        return str(self.call(OPEN_SESSION, OpenSession(code=self.platform.sign_in_code(self.owner))).token)

    def client(self, token: str | None = None) -> httpx.Client:
        """As a browser that is signed in; it says that its requests come from our own pages, as browsers do."""
        cookies = {} if token is None else {"falaj-session": token}
        headers = {"sec-fetch-site": "same-origin", "accept": "text/html"}
        return httpx.Client(base_url=self.url, cookies=cookies, headers=headers, trust_env=False, verify=NO_TLS)


class CompiledTemplates(BytecodeCache):
    """For all consoles of this process: compiling a page takes many times what drawing it does."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._known.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        assert bucket.code is not None
        self._known[bucket.key, bucket.checksum] = bucket.code


COMPILED = CompiledTemplates()


@contextmanager
def templates_as_before() -> Iterator[None]:
    """Consoles that are made meanwhile use templates that were compiled for those before."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendering, "Environment", partial(Environment, bytecode_cache=COMPILED))
        yield


def serve_in_thread(platform: Platform, listener: Any, *, tls: bool = False) -> tuple[uvicorn.Server, threading.Thread]:
    with templates_as_before():
        app = platform.application(hosts={"127.0.0.1", "localhost"}, tls=tls)
    config = uvicorn.Config(app, loop="uvloop", lifespan="off", log_config=None, access_log=False, server_header=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    return server, thread


def running_site(
    directory: Path,
    *,
    oidc: OidcSection | None = None,
    tls: bool = False,
    stranger_calls_per_second: float = 1000.0,
    profile: Literal["solo", "team", "regulated"] = "solo",
    data: DataSettings | None = None,
) -> Iterator[Site]:
    limits = LimitSettings(stranger_calls_per_second=stranger_calls_per_second)
    settings = Settings(
        oidc=oidc or OidcSection(), limits=limits, platform=PlatformSettings(profile=profile), data=data or DataSettings()
    )
    listener = listen("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    home = Home(path=directory / "home")
    with ExitStack() as opened:
        with migrations_as_before():
            platform = opened.enter_context(open_platform(home, settings, clock=SystemClock(), url=url))
        platform.start_loops()
        server, thread = serve_in_thread(platform, listener, tls=tls)
        try:
            yield Site(platform, url)
        finally:
            server.should_exit = True
            thread.join()
            listener.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    yield from running_site(tmp_path)


def until(browser: Chrome, true: Callable[[Chrome], Any]) -> Any:
    """What lay on a page that went away meanwhile is looked for again on the next."""
    waiting = WebDriverWait(browser, WAIT, poll_frequency=0.02, ignored_exceptions=(StaleElementReferenceException,))
    return waiting.until(true)


def wait_for(browser: Chrome, selector: str) -> Any:
    return until(browser, lambda driver: driver.find_element(By.CSS_SELECTOR, selector))


def sign_in(browser: Chrome, site: Site) -> None:
    browser.get(site.link())
    wait_for(browser, "nav[aria-label=Console]")


class Form:
    """A form of a page, as a browser would send it: its hidden fields included."""

    def __init__(self, page: str, action: str) -> None:
        found = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', page, re.DOTALL)
        assert found is not None, f"no form to {action} on this page"
        self.action = action
        self.fields = {
            html.unescape(name): html.unescape(text)
            for name, text in re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)"', found[0])
        }

    def send(self, client: httpx.Client, **fields: Any) -> httpx.Response:
        return client.post(self.action, data=self.fields | fields)
