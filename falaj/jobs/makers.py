"""The token that a job's own tokens descend from. Whoever submits from a session may sign out of it while jobs wait: these go
on, because they descend from a token that stands in for the session, and end when the session is revoked with all it made."""

from typing import Final

from falaj.base.clock import DAY, Moment
from falaj.base.ids import TokenId, new_id
from falaj.database.work import Context
from falaj.governance.gate import token_hash
from falaj.governance.identity.minting import new_secret
from falaj.governance.identity.store import token_by_id
from falaj.jobs.store import tokens

LABEL: Final = "jobs of a session"
LIFE: Final = 366 * DAY


def maker_on_behalf(context: Context) -> TokenId:
    """For what the platform submits by itself in the caller's name: a token of theirs that reaches this project alone."""
    identity, made = context.identity, TokenId(new_id(context.now))
    row = {
        "id": made,
        "hash": token_hash(new_secret()),  # nobody ever knows its secret
        "principal": identity.principal,
        "label": "jobs on behalf",
        "scopes": tokens.listed(identity.scopes),
        "projects": tokens.listed([context.required_project.name]),
        "zone": identity.zone,
        "expires": int(Moment(context.now + LIFE)),
        "parent": None,
    }
    tokens.add(context.work, [row], context.now)
    return made


def maker_for(context: Context) -> TokenId | None:
    """The token to keep with a job that is submitted now; None for who has none."""
    own = context.identity.token
    token = None if own is None else token_by_id(context.work, own)
    if token is None or token.kind != "session":
        return own
    if (known := tokens.child(context.work, token.id, LABEL)) is not None:
        return TokenId(known)
    made = TokenId(new_id(context.now))
    row = {
        "id": made,
        "hash": token_hash(new_secret()),  # nobody ever knows its secret
        "principal": token.principal,
        "label": LABEL,
        "scopes": tokens.listed(token.scopes),
        "projects": tokens.listed(token.projects),
        "zone": token.zone,
        "expires": int(token.reach or Moment(context.now + LIFE)),
        "parent": token.id,
    }
    tokens.add(context.work, [row], context.now)
    return made
