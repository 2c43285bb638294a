"""`falaj login`, `falaj logout`, `falaj whoami`: being somebody."""

import sys
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from falaj.app.home import read_document, write_private
from falaj.base.clock import Moment
from falaj.base.errors import Conflict, FalajError
from falaj.base.values import Nothing, value
from falaj.cli.command import Commands
from falaj.cli.layout import Layout, sentence
from falaj.cli.places import Access, find_access, login_file
from falaj.cli.signing_in import sign_in
from falaj.cli.terminal import Terminal
from falaj.governance.identity.operations import PROVIDERS, WHOAMI, Me
from falaj.governance.sessions.operations import CLOSE_SESSION, OIDC_TOKEN, OPEN_SESSION, OidcToken, OpenSession, Session

commands = Commands("Who you are to the platform.")


@value
class LoggedIn:
    url: str
    name: str
    expires: Moment


@value
class LoggedOut:
    was_signed_in: bool


@commands.command("login")
def login(
    terminal: Terminal,
    url: Annotated[str, typer.Option(help="The platform's address, where it is not known here yet.", show_default=False)] = "",
    code: Annotated[str, typer.Option(help="Sign in with a one-time code instead.", show_default=False)] = "",
    certificate: Annotated[
        str, typer.Option(help="The platform's certificate, where it signed that itself.", metavar="PEM")
    ] = "",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address instead of opening a browser.")] = False,
) -> None:
    """Sign in through your identity provider, or with a one-time code. Ends any earlier sign-in on this machine.

    Example: falaj login --url https://falaj.example.com
    """
    known = find_access(terminal.given_home, url)
    access = Access(
        url=known.url, token=None, certificate=str(Path(certificate).absolute()) if certificate else known.certificate
    )
    client = terminal.client_at(access)
    if code:
        session = client.call(OPEN_SESSION, OpenSession(code=code))
    else:
        providers = client.call(PROVIDERS, Nothing()).items
        if not providers:
            raise Conflict(
                f"{access.url} has no identity provider; ask its admin for a link, and use its code: falaj login --code CODE"
            )
        provider = providers[0]
        answer = sign_in(
            provider.issuer, provider.client_id, provider.scopes, show=lambda address: _open(terminal, address, no_browser)
        )
        session = client.call(OIDC_TOKEN, OidcToken(id_token=answer.id_token, nonce=answer.nonce))
    _keep(access, session)
    me = terminal.client_at(Access(url=access.url, token=session.token, certificate=access.certificate)).call(WHOAMI, Nothing())
    found = LoggedIn(url=access.url, name=me.name, expires=session.expires)
    terminal.show(found, sentence(lambda it: f"Signed in to {it.url} as {it.name} until {it.expires}."))


@commands.command("logout")
def logout(terminal: Terminal) -> None:
    """Revoke the sign-in and forget it on this machine.

    Example: falaj logout
    """
    kept = read_document(login_file())
    if kept:
        access = Access(url=str(kept.get("url")), token=str(kept.get("token")), certificate=str(kept.get("certificate", "")))
        with suppress(FalajError):  # ended already, or the platform is gone: what counts is that it is forgotten here
            terminal.client_at(access).call(CLOSE_SESSION, Nothing(), retry=False)
        login_file().unlink(missing_ok=True)
    said = sentence(lambda it: "Signed out." if it.was_signed_in else "Nobody was signed in.")
    terminal.show(LoggedOut(was_signed_in=bool(kept)), said)


@commands.command("whoami")
def whoami(terminal: Terminal) -> None:
    """Say who you are to the platform, with which roles.

    Example: falaj whoami
    """
    terminal.run(WHOAMI, Nothing(), _me)


def _open(terminal: Terminal, address: str, no_browser: bool) -> None:
    terminal.say(f"Sign in here: {address}")
    sys.stderr.flush()
    if not no_browser:
        webbrowser.open(address)


def _keep(access: Access, session: Session) -> None:
    login_file().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(login_file(), {"url": access.url, "token": session.token, "certificate": access.certificate})


def _me(layout: Layout, me: Me) -> None:
    layout.pairs(
        [
            ("name", me.name),
            ("display", me.display),
            ("kind", me.kind),
            ("id", me.id),
            ("platform roles", me.platform_roles),
            *((f"in {held.project}", held.role) for held in me.roles),
            ("narrowed to", me.scopes),
            ("projects only", me.projects),
            ("zone", me.zone),
            ("until", me.until),
        ]
    )
