"""What was pushed and is in no version yet: looked at, and given up."""

from typing import Final, Literal

from falaj.base.clock import Moment
from falaj.base.errors import NotFound
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.datasets.letting_go import LettingGo
from falaj.datasets.operations import pushing as declared
from falaj.datasets.store import pushes as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset

_AT_ONCE: Final = 1000


class PushService:
    def __init__(self, letting_go: LettingGo) -> None:
        self._letting_go = letting_go

    def bindings(self) -> list[Bound]:
        return [bind(declared.SHOW_PUSHES, self.show), bind(declared.DROP_PUSHES, self.drop)]

    def show(self, context: Context, request: declared.AskAboutPushes) -> declared.Pushes:
        dataset = required_dataset(context, request.dataset)
        found = {row.state: row for row in store.standing(context.work, dataset.id)}
        waiting, stuck = found.get(store.WAITING), found.get(store.STUCK)
        return declared.Pushes(
            dataset=dataset.name,
            waiting=waiting.number if waiting else 0,
            waiting_rows=int(waiting.rows) if waiting else 0,
            waiting_bytes=int(waiting.size) if waiting else 0,
            since=Moment(waiting.since) if waiting else None,
            stuck=stuck.number if stuck else 0,
            stuck_rows=int(stuck.rows) if stuck else 0,
            error=(waiting.error if waiting else "") or (stuck.error if stuck else ""),
            version=store.newest_version(context.work, dataset.id),
            push=_one(context, dataset, request.key) if request.key else None,
        )

    def drop(self, context: Context, request: declared.DropPushes) -> declared.PushesDropped:
        """A thousand at a time: whoever has more asks again."""
        dataset = required_dataset(context, request.dataset, hold=True)
        states = (store.STUCK, store.WAITING) if request.waiting else (store.STUCK,)
        gone = store.give_up(context.work, dataset.id, states, _AT_ONCE)
        self._letting_go.of_parts(context, [row.part for row in gone if row.part])
        context.facts.update(dataset=dataset.id, pushes=len(gone))
        return declared.PushesDropped(pushes=len(gone), rows=sum(row.rows for row in gone))


def _one(context: Context, dataset: Found, key: str) -> declared.PushState:
    row = store.find_by_key(context.work, dataset.id, key, context.identity.principal)
    if row is None:
        raise NotFound(f"You have pushed nothing to {dataset.name!r} under the key {key!r}, or more than two days ago.")
    return declared.PushState(
        push=row.id,
        state=_state(context, dataset, row),
        rows=row.rows,
        accepted=Moment(row.accepted),
        version=row.version,
        error=row.error,
    )


def _state(context: Context, dataset: Found, row: Found) -> Literal["waiting", "published", "quarantined", "stuck"]:
    if row.state == store.DONE:
        return "quarantined" if store.is_quarantined(context.work, dataset.id, row.version) else "published"
    return "stuck" if row.state == store.STUCK else "waiting"
