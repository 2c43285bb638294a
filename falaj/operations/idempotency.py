"""Idempotency keys: the second call with the same key gets the first one's answer, and no second effect.

The answer is kept in the effect's transaction. A different request under a used key is refused, and so is a repeat whose answer
held a secret, for secrets are shown once and stored nowhere.
"""

import hashlib
from typing import Any

from falaj.base.clock import DAY, Moment
from falaj.base.errors import Conflict, Invalid
from falaj.base.operation import Operation
from falaj.base.values import Secret, marks
from falaj.database.work import Context
from falaj.operations.messages import adapter
from falaj.operations.store import LONGEST_KEY, add_answer, find_answer, forget_answers

KEPT_FOR = 2 * DAY
LASTING = 366 * DAY  # where it is not let go before


def earlier_answer(context: Context, key: str, operation: Operation[Any, Any], request: Any) -> Any:
    """The answer given under this key before, or None if the key is new."""
    if len(key) > LONGEST_KEY or not key.isascii() or not key.isprintable():
        raise Invalid(f"An idempotency key is at most {LONGEST_KEY} printable ASCII characters.")
    row = find_answer(context.work, context.identity.principal, key)
    if row is None:
        return None
    if row.request_digest != _digest(operation, request):
        raise Conflict("This idempotency key was used for a different request; take a fresh one.")
    if row.answer is None:
        raise Conflict("This was done already; its answer held a secret, which is shown only once.")
    return adapter(operation.result).validate_json(row.answer)


def keep_answer(
    context: Context, key: str, operation: Operation[Any, Any], request: Any, result: Any, *, lasts: bool = False
) -> None:
    kind: type = type(result)
    shown_once = any(isinstance(mark, Secret) for field in result.__dataclass_fields__ for mark in marks(kind, field))
    add_answer(
        context.work,
        principal=context.identity.principal,
        key=key,
        request_digest=_digest(operation, request),
        answer=None if shown_once else adapter(operation.result).dump_json(result),
        now=Moment(context.now + LASTING) if lasts else context.now,
    )
    forget_answers(context.work, Moment(context.now - KEPT_FOR))


def _digest(operation: Operation[Any, Any], request: Any) -> bytes:
    return hashlib.sha256(operation.name.encode() + b"\0" + adapter(operation.request).dump_json(request)).digest()
