"""Which version of a model somebody means: a number, an alias as it points now, or without either the champion."""

from falaj.base.errors import Invalid, NotFound
from falaj.database.work import Context
from falaj.registry.operations.words import CHAMPION
from falaj.registry.store import models as model_store
from falaj.registry.store.tables import Found
from falaj.registry.views import required_model, required_version


def meant_version(context: Context, model: str, version: int, alias: str) -> Found:
    if version and alias:
        raise Invalid(f"Name the version by its number ({version}) or by an alias ({alias!r}), not by both.")
    if version:
        return required_version(context, model, version)
    known, name = required_model(context, model), alias or CHAMPION
    number = model_store.aliased_version(context.work, known.id, name)
    if not number:
        raise NotFound(f"Model {model!r} has no alias {name!r}: name a version, or promote one first.")
    return required_version(context, model, number)
