"""Where a reader of batches stands, kept so that it can go on there, and only with what it was reading."""

from typing import Any

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.loading.orders import Order, Share


@value
class Place:
    """`batches` of `epoch` were given out."""

    epoch: int = 0
    batches: int = 0


def kept(place: Place, order: Order, share: Share) -> dict[str, Any]:
    return {"epoch": place.epoch, "batches": place.batches, "of": _facts(order, share)}


def found(state: dict[str, Any], order: Order, share: Share) -> Place:
    """Raises `Invalid` where the order would be another one: to go on would give some rows twice and others never."""
    now = _facts(order, share)
    differing = [
        f"{name} was {before} and is {now.get(name)}" for name, before in state["of"].items() if before != now.get(name)
    ]
    if differing:
        raise Invalid(f"This is not what was being read, so it cannot go on there: {'; '.join(differing)}. Give it the same.")
    return Place(epoch=state["epoch"], batches=state["batches"])


def _facts(order: Order, share: Share) -> dict[str, Any]:
    return {
        "content": order.content,
        "rows": sum(order.rows),
        "groups": len(order.rows),
        "batch_size": order.batch,
        "seed": order.seed,
        "shuffle": order.shuffled,
        "buffer": order.pool,
        "drop_last": order.drop_last,
        "ranks": share.ranks,
        "workers": share.workers,
    }
