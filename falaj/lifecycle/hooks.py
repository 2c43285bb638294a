"""Calls by which other services start pipelines: whether they are signed, and what they tell. Pure.

Whoever calls shows that they know the hook's secret, in one of the ways that services have: a digest of the body under it
(GitHub, Gitea, Forgejo), the secret itself (GitLab), or a digest of id, time and body (Standard Webhooks).
"""

import base64
import hashlib
import hmac
import json
import re
from typing import Any, Final

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.errors import Invalid
from falaj.base.webhooks import signature
from falaj.lifecycle.operations.triggers import CallHook, Trigger

HOOKS: Final = ("webhook", "push")
_RECENT: Final = 5 * MINUTE
_BRANCH: Final = "refs/heads/"
_COMMIT: Final = re.compile(r"(?!0+$)[0-9a-f]{40,64}")  # noughts alone: the branch is gone


def secret_of(key: bytes) -> str:
    return "whsec_" + base64.b64encode(key).decode()


def is_signed(call: CallHook, secret: str, now: Moment) -> bool:
    if call.token:
        return _are_same(call.token, secret)
    body = call.body.encode()
    if not call.delivery:
        return _are_same(call.signature, "sha256=" + hmac.digest(secret.encode(), body, hashlib.sha256).hex())
    wanted = signature(secret, call.delivery, call.sent, body)
    return _is_recent(call.sent, now) and any(_are_same(one, wanted) for one in call.signature.split())


def _are_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())


def repeated_as(call: CallHook, wish: Trigger) -> str:
    """By what a call is known that comes again; empty where two calls may be alike to the letter."""
    told = call.delivery or (call.body if wish.kind == "push" else "")
    return hashlib.sha256(told.encode()).hexdigest()[:32] if told else ""


def _is_recent(sent: str, now: Moment) -> bool:
    """Whoever overheard a call cannot make it again later."""
    return sent.isdecimal() and len(sent) <= len(str(now)) and abs(now - int(sent) * SECOND) <= _RECENT


def told(wish: Trigger, body: str) -> dict[str, Any] | None:
    """What a run may refer to as `trigger`. None for what starts nothing: what is no push, or one to another branch."""
    content = _read(body)
    if wish.kind == "webhook":
        return {"content": content}
    ref, commit = (content.get("ref"), content.get("after")) if isinstance(content, dict) else (None, None)
    if ref != _BRANCH + wish.about or not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        return None
    return {"branch": wish.about, "commit": commit}


def _read(body: str) -> Any:
    try:
        content = json.loads(body) if body.strip() else {}
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()  # no halves of letters, and no infinite numbers
    except (ValueError, RecursionError):
        raise Invalid("The body is not JSON: let the service send application/json.") from None
    return content
