"""Tokens: only hashes are kept, nothing made with one goes beyond it, and forged passes are refused."""

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as some
from sqlalchemy import select

from falaj.base.caller import Identity
from falaj.base.clock import DAY, MINUTE, SECOND, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound, Unauthenticated
from falaj.base.ids import PrincipalId, TokenId
from falaj.base.operation import Group, Operation
from falaj.base.values import Secret, marks
from falaj.governance.identity import minting
from falaj.governance.identity import operations as identity
from falaj.governance.identity.minting import Wish, bounded, covers
from falaj.governance.identity.store import StoredToken, principals, tokens
from falaj.governance.passes import AUDIENCE, PURPOSE, TYPE, verify_pass
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.keys.signing import SigningKeys
from tests.governance.conftest import SAMPLES, START, House

PERMISSIONS = {operation.permission.name: operation.permission for operation in SAMPLES.values()}


def who(house: House, token: str) -> identity.Me:
    return house.call(token, identity.WHOAMI, identity.Nothing())


def test_a_token_is_43_random_characters_and_only_its_hash_is_stored(house: House) -> None:
    token = house.token(house.owner, label="ci")
    assert token.startswith("falaj_")
    assert len(token) == 6 + 43
    rows = house.database.read(lambda work: work.execute(select(tokens)).all())
    assert all(token[6:] not in str(row) and house.owner[6:] not in str(row) for row in rows)
    for kind in (identity.NewToken, identity.Pass, sessions.Session):
        assert any(isinstance(mark, Secret) for mark in marks(kind, "token"))


def test_the_longest_life_is_the_profiles(house: House) -> None:
    made = house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken())
    assert made.expires == START + house.profile.token_life
    with pytest.raises(Forbidden) as refused:
        house.token(house.owner, days=91)
    assert refused.value.rule == "token.life"


def test_what_a_token_makes_ends_with_it(house: House) -> None:
    parent = house.token(house.owner, days=2)
    with pytest.raises(Forbidden):
        house.token(parent, days=3)
    child = house.call(parent, identity.CREATE_TOKEN, identity.CreateToken())
    assert child.expires == START + 2 * DAY
    # Nor is there a way round through a session: the code carries the bounds on.
    link = house.call(parent, sessions.LINK_SESSION, identity.Nothing())
    session = house.call(None, sessions.OPEN_SESSION, sessions.OpenSession(code=link.code))
    assert session.expires <= START + 2 * DAY
    with pytest.raises(Forbidden):
        house.token(session.token, days=3)


def test_a_token_in_a_zone_makes_tokens_in_that_zone(house: House) -> None:
    house.zone("frankfurt")
    token = house.token(house.owner, zone="home")
    assert who(house, house.token(token)).zone == "home"
    with pytest.raises(Forbidden) as refused:
        house.token(token, zone="frankfurt")
    assert refused.value.rule == "token.zone"
    with pytest.raises(NotFound):
        house.token(house.owner, zone="atlantis")


def test_unknown_scopes_are_refused(house: House) -> None:
    with pytest.raises(Invalid, match=r"sample\.fly"):
        house.token(house.owner, scopes=("sample.fly",))


def test_revoking_a_token_revokes_what_was_made_with_it(house: House) -> None:
    parent = house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken())
    child = house.token(parent.token)
    grandchild = house.token(child)
    house.call(house.owner, identity.REVOKE_TOKEN, identity.RevokeToken(token=parent.id))
    for token in (parent.token, child, grandchild):
        with pytest.raises(Unauthenticated):
            who(house, token)


def test_revoking_reaches_past_a_token_that_expired_long_ago(house: House) -> None:
    root = house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken())
    link = house.call(root.token, sessions.LINK_SESSION, identity.Nothing())
    session = house.call(None, sessions.OPEN_SESSION, sessions.OpenSession(code=link.code))
    grandchild = house.token(session.token)
    house.clock.forward(40 * DAY)
    house.sessions.step()
    who(house, grandchild)
    house.call(house.owner, identity.REVOKE_TOKEN, identity.RevokeToken(token=root.id))
    with pytest.raises(Unauthenticated):
        who(house, grandchild)


def test_tokens_long_expired_are_forgotten_children_first(house: House) -> None:
    parent = house.token(house.owner, days=1, label="parent")
    house.token(parent, days=1, label="child")
    house.clock.forward(40 * DAY)
    left = []
    for _ in range(2):
        house.sessions.step()
        listed = house.call(house.owner, identity.LIST_TOKENS, identity.ListTokens()).items
        left.append([token.label for token in listed])
    assert left == [["owner", "parent"], ["owner"]]


@pytest.mark.parametrize("leaving", [identity.DISABLE_USER, identity.ERASE_USER], ids=["disabled", "erased"])
def test_what_a_person_made_for_others_falls_with_the_person(
    house: House, leaving: Operation[identity.OneUser, identity.User]
) -> None:
    admin = house.user("admin", ("default", Role.ADMIN))
    house.call(admin, identity.CREATE_SERVICE, identity.CreateService(project="default", name="ci", role=Role.SCIENTIST))
    wish = identity.CreateServiceToken(project="default", service="ci", zone="home")
    theirs = house.call(admin, identity.CREATE_SERVICE_TOKEN, wish).token
    another = house.call(house.owner, identity.CREATE_SERVICE_TOKEN, wish).token
    house.touch(theirs, Group.WRITE, "default")
    house.call(house.owner, leaving, identity.OneUser(user="admin"))
    with pytest.raises(Unauthenticated):
        house.touch(theirs, Group.WRITE, "default")
    house.touch(another, Group.WRITE, "default")


def test_an_account_has_a_bounded_number_of_valid_tokens(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minting, "MOST_TOKENS", 3)
    made = [house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken()) for _ in range(2)]
    with pytest.raises(Conflict, match="3 valid tokens"):
        house.token(house.owner)
    house.call(house.owner, identity.REVOKE_TOKEN, identity.RevokeToken(token=made[0].id))
    house.token(house.owner)


def test_a_name_that_looks_like_an_id_is_refused(house: House) -> None:
    name = who(house, house.owner).id
    with pytest.raises(Invalid, match="looks like an id"):
        house.call(house.owner, identity.CREATE_USER, identity.CreateUser(name=name))
    with pytest.raises(Invalid, match="looks like an id"):
        house.call(house.owner, identity.CREATE_SERVICE, identity.CreateService(project="default", name=name, role=Role.VIEWER))


def test_nobody_revokes_the_tokens_of_others(house: House) -> None:
    made = house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken())
    other = house.user("other", ("platform", Role.ADMIN))
    with pytest.raises(NotFound):
        house.call(other, identity.REVOKE_TOKEN, identity.RevokeToken(token=made.id))
    assert made.id not in {token.id for token in house.call(other, identity.LIST_TOKENS, identity.ListTokens()).items}


def test_the_day_of_last_use_is_noted_and_nothing_finer(house: House) -> None:
    token = house.token(house.owner, label="seen")
    house.clock.forward(5 * MINUTE)
    who(house, token)
    before = house.generation()
    house.sessions.step()
    listed = house.call(house.owner, identity.LIST_TOKENS, identity.ListTokens()).items
    assert [entry.last_used for entry in listed if entry.label == "seen"] == [Moment(START // DAY * DAY)]
    assert house.generation() == before


def test_pages_of_tokens_are_complete(house: House) -> None:
    for number in range(5):
        house.token(house.owner, label=str(number))
    seen, cursor = [], ""
    while True:
        page = house.call(house.owner, identity.LIST_TOKENS, identity.ListTokens(limit=2, cursor=cursor))
        seen += [token.label for token in page.items]
        if not (cursor := page.next):
            break
    assert seen == ["owner", "0", "1", "2", "3", "4"]


def test_an_erased_person_leaves_an_id_and_no_name(house: House) -> None:
    invite = identity.CreateUser(name="layla", display="Layla Haddad", email="layla@example.org")
    id = house.call(house.owner, identity.CREATE_USER, invite).id
    erased = house.call(house.owner, identity.ERASE_USER, identity.OneUser(user="layla"))
    assert erased.id == id
    assert erased.erased
    rows = house.database.read(lambda work: work.execute(select(principals)).all())
    assert "layla" not in str(rows).lower()
    assert "haddad" not in str(rows).lower()


def test_an_admin_cannot_slip_into_the_place_of_somebody_who_can_sign_in(house: House) -> None:
    token = house.user("aisha", ("default", Role.VIEWER))
    invite = identity.InviteUser(user="aisha")
    with pytest.raises(Conflict):
        house.call(house.owner, identity.INVITE_USER, invite)
    house.call(house.owner, identity.DISABLE_USER, identity.OneUser(user="aisha"))
    house.call(house.owner, identity.ENABLE_USER, identity.OneUser(user="aisha"))
    code = house.call(house.owner, identity.INVITE_USER, invite).code
    house.call(None, sessions.OPEN_SESSION, sessions.OpenSession(code=code))
    with pytest.raises(Unauthenticated):
        who(house, token)


def test_a_service_account_reaches_its_project_alone(house: House) -> None:
    house.project("water")
    account = identity.CreateService(project="water", name="ci", role=Role.SCIENTIST)
    house.call(house.owner, identity.CREATE_SERVICE, account)
    wish = identity.CreateServiceToken(project="water", service="ci", zone="home")
    made = house.call(house.owner, identity.CREATE_SERVICE_TOKEN, wish)
    house.touch(made.token, Group.WRITE, "water")
    with pytest.raises(NotFound):
        house.touch(made.token, Group.READ, "default")
    one = identity.OneService(project="water", service="ci")
    house.call(house.owner, identity.DISABLE_SERVICE, one)
    with pytest.raises(Unauthenticated):
        house.touch(made.token, Group.WRITE, "water")
    with pytest.raises(NotFound):
        house.call(house.owner, identity.SHOW_SERVICE, identity.OneService(project="default", service="ci"))


def test_a_service_account_that_was_disabled_can_be_enabled_and_its_old_tokens_stay_revoked(house: House) -> None:
    house.call(house.owner, identity.CREATE_SERVICE, identity.CreateService(project="default", name="ci", role=Role.SCIENTIST))
    wish = identity.CreateServiceToken(project="default", service="ci", zone="home")
    old = house.call(house.owner, identity.CREATE_SERVICE_TOKEN, wish).token
    one = identity.OneService(project="default", service="ci")
    assert house.call(house.owner, identity.DISABLE_SERVICE, one).disabled
    with pytest.raises(Conflict, match="disabled"):
        house.call(house.owner, identity.CREATE_SERVICE_TOKEN, wish)
    assert not house.call(house.owner, identity.ENABLE_SERVICE, one).disabled
    with pytest.raises(Unauthenticated):
        house.touch(old, Group.WRITE, "default")
    house.touch(house.call(house.owner, identity.CREATE_SERVICE_TOKEN, wish).token, Group.WRITE, "default")


SCOPES = some.sampled_from([str(group) for group in Group] + sorted(PERMISSIONS))
NAMES = some.sampled_from(["water", "fire", "earth"])


@given(
    held_scopes=some.frozensets(SCOPES, max_size=3),
    held_projects=some.frozensets(NAMES, max_size=2),
    zone=some.sampled_from(["", "home", "far"]),
    reach=some.one_of(some.none(), some.integers(1, 100)),
    scopes=some.frozensets(SCOPES, max_size=3),
    projects=some.frozensets(NAMES, max_size=3),
    wished_zone=some.sampled_from(["", "home", "far"]),
    days=some.integers(0, 120),
)
def test_a_token_never_reaches_beyond_its_maker(
    held_scopes: frozenset[str],
    held_projects: frozenset[str],
    zone: str,
    reach: int | None,
    scopes: frozenset[str],
    projects: frozenset[str],
    wished_zone: str,
    days: int,
) -> None:
    maker = StoredToken(
        id=TokenId("t"),
        principal=PrincipalId("p"),
        kind="api",
        label="",
        scopes=held_scopes,
        projects=held_projects,
        zone=zone,
        created=START,
        expires=Moment(START + 90 * DAY),
        reach=None if reach is None else Moment(START + reach * DAY),
        revoked=None,
        last_used=None,
    )
    holder = Identity(
        principal=PrincipalId("p"),
        kind="person",
        name="p",
        token=maker.id,
        zone=zone,
        scopes=held_scopes,
        projects=held_projects,
    )
    wish = Wish(scopes=tuple(scopes), projects=tuple(projects), zone=wished_zone, life=days * DAY)
    try:
        child = bounded(holder, maker, wish, longest=90 * DAY, permissions=PERMISSIONS, now=START)
    except Forbidden:
        return
    assert child.expires <= START + min(90, 1000 if reach is None else reach) * DAY
    assert child.reach == child.expires
    assert not zone or child.zone == zone
    assert not held_projects or (child.projects and child.projects <= held_projects)
    assert not held_scopes or (child.scopes and all(covers(held_scopes, scope, PERMISSIONS) for scope in child.scopes))


# Passes


def exchanged(house: House, by: str, **wish: Any) -> str:
    return house.call(by, identity.EXCHANGE_TOKEN, identity.ExchangeToken(**wish)).token


def test_a_pass_does_what_its_token_may_and_no_more(house: House) -> None:
    house.project("water")
    text = exchanged(house, house.owner, scopes=("read",), projects=("water",), zone="home")
    me = who(house, text)
    assert (me.kind, me.scopes, me.projects, me.zone) == ("process", ("read",), ("water",), "home")
    house.touch(text, Group.READ, "water")
    with pytest.raises(Forbidden):
        house.touch(text, Group.WRITE, "water")
    with pytest.raises(NotFound):
        house.touch(text, Group.READ, "default")


def test_a_pass_makes_no_other_tokens(house: House) -> None:
    text = exchanged(house, house.owner)
    makers: list[tuple[Operation[Any, Any], Any]] = [
        (identity.CREATE_TOKEN, identity.CreateToken()),
        (identity.EXCHANGE_TOKEN, identity.ExchangeToken()),
        (sessions.LINK_SESSION, identity.Nothing()),
    ]
    for operation, request in makers:
        with pytest.raises(Forbidden) as refused:
            house.call(text, operation, request)
        assert refused.value.rule == "token.process"


def test_a_pass_ends_after_fifteen_minutes_and_falls_with_its_token(house: House) -> None:
    parent = house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken())
    short, long = exchanged(house, parent.token, seconds=60), exchanged(house, parent.token)
    who(house, short)
    house.clock.forward(61 * SECOND)
    with pytest.raises(Unauthenticated):
        who(house, short)
    who(house, long)
    house.call(house.owner, identity.REVOKE_TOKEN, identity.RevokeToken(token=parent.id))
    with pytest.raises(Unauthenticated):
        who(house, long)
    fresh = exchanged(house, house.owner)
    house.clock.forward(15 * MINUTE)
    with pytest.raises(Unauthenticated):
        who(house, fresh)


def test_passes_outlive_the_rotation_of_their_key(house: House) -> None:
    text, keys = exchanged(house, house.owner), SigningKeys(house.ring)
    house.database.write(lambda work: keys.rotate(work, PURPOSE, house.clock.now()))
    assert who(house, text).id == who(house, exchanged(house, house.owner)).id == who(house, house.owner).id


def _encode(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")


def _parts(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return jwt.get_unverified_header(text), jwt.decode(text, options={"verify_signature": False})


FORGERIES: dict[str, Any] = {
    "no signature": lambda header, claims: ({**header, "alg": "none"}, claims),
    "a symmetric algorithm": lambda header, claims: ({**header, "alg": "HS256"}, claims),
    "an unknown key": lambda header, claims: ({**header, "kid": "f" * 32}, claims),
    "no key": lambda header, claims: ({"alg": "EdDSA", "typ": TYPE}, claims),
    "a key that is no text": lambda header, claims: ({**header, "kid": ["x"]}, claims),
    "a key of its own": lambda header, claims: ({**header, "jwk": {"kty": "OKP"}}, claims),
    "a key set elsewhere": lambda header, claims: ({**header, "jku": "https://evil.example/keys"}, claims),
    "a certificate elsewhere": lambda header, claims: ({**header, "x5u": "https://evil.example/x"}, claims),
    "critical extensions": lambda header, claims: ({**header, "crit": ["b64"], "b64": False}, claims),
    "another type": lambda header, claims: ({**header, "typ": "JWT"}, claims),
    "another audience": lambda header, claims: (header, {**claims, "aud": "other"}),
    "several audiences": lambda header, claims: (header, {**claims, "aud": [AUDIENCE, "other"]}),
    "another issuer": lambda header, claims: (header, {**claims, "iss": "https://other.test"}),
    "an expiry in the past": lambda header, claims: (header, {**claims, "exp": claims["iat"] - 1}),
    "a life of a day": lambda header, claims: (header, {**claims, "exp": claims["exp"] + 86_400}),
    "a start in the future": lambda header, claims: (
        header,
        {**claims, "nbf": claims["nbf"] + 300, "exp": claims["exp"] + 300},
    ),
    "an expiry that is no number": lambda header, claims: (header, {**claims, "exp": "never"}),
    "an infinite expiry": lambda header, claims: (header, {**claims, "exp": float("inf")}),
    "scopes that are no list": lambda header, claims: (header, {**claims, "scopes": "read"}),
    "another person": lambda header, claims: (header, {**claims, "sub": "0" * 32}),
    "an unknown token": lambda header, claims: (header, {**claims, "tok": "0" * 32}),
    **{
        f"no {name}": lambda header, claims, name=name: (header, {key: said for key, said in claims.items() if key != name})
        for name in ("iss", "aud", "sub", "jti", "iat", "nbf", "exp", "tok", "scopes", "projects", "zone")
    },
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_pass_is_refused_even_with_a_true_signature(small_house: House, forgery: str) -> None:
    house = small_house
    header, claims = FORGERIES[forgery](*_parts(exchanged(house, house.owner)))
    signed = f"{_encode(header)}.{_encode(claims)}"
    signer = house.database.read(lambda work: SigningKeys(house.ring).current(work, PURPOSE))
    signature = base64.urlsafe_b64encode(signer.sign(signed.encode())).decode().rstrip("=")
    for text in (f"{signed}.{signature}", f"{signed}."):
        with pytest.raises(Unauthenticated):
            who(house, text)


def test_a_pass_signed_with_another_key_is_refused(small_house: House) -> None:
    house = small_house
    header, claims = _parts(exchanged(house, house.owner))
    forged = jwt.encode(claims, Ed25519PrivateKey.generate(), algorithm="EdDSA", headers=header)
    with pytest.raises(Unauthenticated):
        who(house, forged)


@given(text=some.one_of(some.text(), some.from_regex(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*", fullmatch=True)))
def test_any_other_text_is_no_pass(text: str) -> None:
    with pytest.raises(Unauthenticated):
        verify_pass(text, {"k": bytes(32)}, issuer="https://falaj.test", now=START)
