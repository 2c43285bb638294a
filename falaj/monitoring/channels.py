"""Where a project's alerts are sent. Addresses have secrets in them: they are sealed, and shown to nobody again."""

import json
from collections.abc import Sequence
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.values import Nothing, value
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.governance.projects.store import project_by_id
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.alerts import Channel as ShownChannel
from falaj.monitoring.sealing import CHANNEL, Documents
from falaj.monitoring.sending import delivering
from falaj.monitoring.sending.channels import Channel, new_secret
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store.tables import Found
from falaj.monitoring.views import read_wishes
from falaj.registry.views import people
from falaj.serving.store import endpoints as endpoint_store
from falaj.storage.service import Received

MOST: Final = 100  # of one project


@value
class Checked:
    """A channel that something can be sent to, sealed and not kept yet."""

    channel: Channel
    received: Received


class ChannelService:
    """Thread-safe. `allow_private` is the operator's word that receivers may be inside the network."""

    def __init__(self, database: Database, documents: Documents, *, allow_private: bool = False) -> None:
        self._database, self._documents, self._allow_private = database, documents, allow_private

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.SET_CHANNEL, self.check, self.set),
            bind(declared.LIST_CHANNELS, self.list),
            bind(declared.DELETE_CHANNEL, self.delete),
        ]

    def check(self, context: Context, request: declared.SetChannel) -> Checked:
        secret = new_secret() if request.kind == "webhook" else ""
        channel = Channel(name=request.channel, kind=request.kind, url=request.url, secret=secret)
        delivering.check(channel, allow_private=self._allow_private)
        facts = context.required_project
        project = self._database.read(lambda work: project_by_id(work, facts.id))
        if project is None or not facts.places:
            raise Forbidden(f"The project {facts.name!r} has no zone to keep the address in.", rule="zones-of-project")
        content = json.dumps({"url": channel.url, "secret": channel.secret}).encode()
        return Checked(channel=channel, received=self._documents.receive(project, facts.places[0].zone, content))

    def set(self, context: Context, request: declared.SetChannel, checked: Checked) -> declared.NewChannel:
        project, channel = context.required_project.id, checked.channel
        if store.channel(context.work, project, channel.name, hold=True) is not None:
            self._documents.drop(context, CHANNEL, _owner(project, channel.name))
        elif len(store.channels_of(context.work, project)) >= MOST:
            raise Conflict(f"The project has {MOST} channels already; delete one first.")
        row = {
            "project": project,
            "name": channel.name,
            "kind": channel.kind,
            "shown": channel.shown,
            "blob": self._documents.keep(context, checked.received, CHANNEL, _owner(project, channel.name)),
            "changed": context.now,
            "changed_by": context.identity.principal,
        }
        store.set_channel(context.work, row)
        shown = next(one for one in _shown(context, store.channels_of(context.work, project)) if one.name == channel.name)
        return declared.NewChannel(channel=shown, secret=channel.secret)

    def list(self, context: Context, request: declared.ListChannels) -> declared.Channels:
        return declared.Channels(items=_shown(context, store.channels_of(context.work, context.required_project.id)))

    def delete(self, context: Context, request: declared.OneChannel) -> Nothing:
        project, name = context.required_project.id, request.channel
        if store.channel(context.work, project, name, hold=True) is None:
            raise NotFound(f"There is no channel {name!r} here; `falaj channel list` shows those there are.")
        if used := _users(context, name):
            raise Conflict(f"The monitor of {used[0]!r} sends to {name!r}; change it with `falaj monitor apply` first.")
        store.drop_channel(context.work, project, name)
        self._documents.drop(context, CHANNEL, _owner(project, name))
        return Nothing()

    def opened(self, context: Context, name: str) -> Channel:
        """For who sends. Raises `NotFound` where it is gone, and what the key ring does."""
        project = context.required_project.id
        row = store.channel(context.work, project, name)
        if row is None:
            raise NotFound(f"There is no channel {name!r} any more.")
        told = json.loads(self._documents.read(context, row.blob))
        return Channel(name=name, kind=row.kind, url=told["url"], secret=told["secret"])


def _users(context: Context, name: str) -> list[str]:
    """Names of the endpoints whose monitors send there."""
    found = []
    for endpoint, written in store.watching_with(context.work, context.required_project.id):
        wishes = read_wishes(written)
        if name in (*wishes.channels, *wishes.escalate_to):
            row = endpoint_store.find_by_id(context.work, endpoint)
            found.append("an endpoint that is gone" if row is None else row.name)
    return sorted(found)


def _shown(context: Context, rows: Sequence[Found]) -> tuple[ShownChannel, ...]:
    persons = people(context.work, {row.changed_by for row in rows})
    return tuple(
        ShownChannel(
            name=row.name, kind=row.kind, shown=row.shown, changed=Moment(row.changed), changed_by=persons[row.changed_by]
        )
        for row in rows
    )


def _owner(project: str, name: str) -> str:
    return f"{project}-{name}"
