"""Share links: a short name for a page of a project. What opens it is the right to read the project, never the link."""

import re
from typing import Any, Final
from urllib.parse import unquote

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.collaboration.operations import links as declared
from falaj.collaboration.people import persons
from falaj.collaboration.store import links as store
from falaj.database.binding import Bound, bind
from falaj.database.work import Context

# A path of plain segments, then perhaps a query and a fragment; printable ASCII without spaces and backslashes.
_PAGE: Final = re.compile(r"(?P<path>(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*)(?:\?[!-\[\]-~]*)?", re.ASCII)


class LinkService:
    def bindings(self) -> list[Bound]:
        return [
            bind(declared.CREATE_LINK, self.create),
            bind(declared.OPEN_LINK, self.open),
            bind(declared.LIST_LINKS, self.list),
            bind(declared.REVOKE_LINK, self.revoke),
        ]

    def create(self, context: Context, request: declared.CreateLink) -> declared.Link:
        id = new_id(context.now)
        row = {
            "id": id,
            "project": context.required_project.id,
            "page": page_below(request.path, context.required_project.name),
            "title": request.title,
            "made_by": context.identity.principal,
            "created": context.now,
            "expires": context.now + request.days * DAY if request.days else None,
        }
        store.add_link(context.work, row)
        context.facts["link"] = id
        return self.open(context, declared.OneLink(project=request.project, link=id))

    def open(self, context: Context, request: declared.OneLink) -> declared.Link:
        return _shown(context, [_required(context, request.link)])[0]

    def list(self, context: Context, request: declared.ListLinks) -> declared.Links:
        project, me, before = context.required_project.id, context.identity.principal, read_text_cursor(request.cursor)
        rows = store.links_of(context.work, project, me, now=context.now, before=before, limit=request.limit + 1)
        page, following = page_of(rows, request.limit, lambda row: (row.id,))
        return declared.Links(items=_shown(context, page), next=following)

    def revoke(self, context: Context, request: declared.OneLink) -> Nothing:
        row = _required(context, request.link)
        if row.made_by != context.identity.principal:
            raise Forbidden("Only who made a share link revokes it.", rule="link.maker")
        store.remove_link(context.work, row.id)
        return Nothing()


def page_below(path: str, project: str) -> str:
    """The address below the project's own; raises `Invalid` for what is no page of this project."""
    own = f"/projects/{project}"
    page = path.removeprefix(own)
    match = _PAGE.fullmatch(page)
    if page == path or match is None or match["path"].startswith("/links/") or not _stays(match["path"]):
        raise Invalid(f"A share link leads to a page of this project, like {own}/runs?order=name, not to {path[:100]!r}.")
    return page


def _stays(path: str) -> bool:
    """Whether no segment means something else to a browser than it seems to, however it is encoded."""
    segments = [unquote(unquote(segment)) for segment in path.split("/")]
    return not any(segment in (".", "..") or re.search(r"[/\\\x00-\x1f]", segment) for segment in segments)


def _required(context: Context, id: str) -> Any:
    row = store.live_link(context.work, context.required_project.id, id, context.now)
    if row is None:
        raise NotFound("This link leads nowhere: it never did here, it has expired, or its maker revoked it.")
    return row


def _shown(context: Context, rows: Any) -> tuple[declared.Link, ...]:
    known, own = persons(context.work, (row.made_by for row in rows)), f"/projects/{context.required_project.name}"
    return tuple(
        declared.Link(
            id=row.id,
            address=f"{own}/links/{row.id}",
            path=own + row.page,
            title=row.title,
            made_by=known[row.made_by],
            created=Moment(row.created),
            expires=None if row.expires is None else Moment(row.expires),
        )
        for row in rows
    )
