"""Signing in: one-time codes, and a real OpenID provider by browser and by command line."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from sqlalchemy import select

from falaj.base.clock import HOUR, MINUTE, Moment, SystemClock
from falaj.base.errors import Forbidden, Invalid, NotFound, Unauthenticated, Unavailable
from falaj.base.operation import Group
from falaj.governance.identity import member_operations as members
from falaj.governance.identity import operations as identity
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as ops
from falaj.governance.sessions.oidc import OidcProvider, OidcSettings, challenge_for
from falaj.governance.sessions.store import codes, oidc_states
from tests.governance.conftest import House, Houses

CALLBACK = "http://127.0.0.1:9/callback"
NOTHING = identity.Nothing()


def open_with(house: House, code: str) -> ops.Session:
    return house.call(None, ops.OPEN_SESSION, ops.OpenSession(code=code))


def test_a_code_opens_one_session(house: House) -> None:
    link = house.call(house.owner, ops.LINK_SESSION, NOTHING)
    assert link.code not in str(house.database.read(lambda work: work.execute(select(codes)).all()))
    session = open_with(house, link.code)
    assert session.expires == house.clock.now() + house.profile.session_life
    assert house.call(session.token, identity.WHOAMI, NOTHING).name == "owner"
    with pytest.raises(Unauthenticated):
        open_with(house, link.code)


def test_a_code_lives_ten_minutes(house: House) -> None:
    link = house.call(house.owner, ops.LINK_SESSION, NOTHING)
    house.clock.forward(10 * MINUTE)
    with pytest.raises(Unauthenticated):
        open_with(house, link.code)
    house.clock.forward(MINUTE)
    house.sessions.step()
    assert house.database.read(lambda work: work.execute(select(codes)).all()) == []


def test_a_code_falls_with_the_token_that_made_it_and_with_its_person(house: House) -> None:
    made = house.call(house.owner, identity.CREATE_TOKEN, identity.CreateToken())
    link = house.call(made.token, ops.LINK_SESSION, NOTHING)
    house.call(house.owner, identity.REVOKE_TOKEN, identity.RevokeToken(token=made.id))
    with pytest.raises(Unauthenticated):
        open_with(house, link.code)
    invited = house.call(house.owner, identity.CREATE_USER, identity.CreateUser(name="aisha"))
    house.call(house.owner, identity.DISABLE_USER, identity.OneUser(user="aisha"))
    with pytest.raises(Unauthenticated):
        open_with(house, invited.code)


def test_a_session_carries_the_bounds_of_the_token_that_opened_it(house: House) -> None:
    narrow = house.token(house.owner, scopes=("read", "session.link"), projects=("default",), zone="home")
    session = open_with(house, house.call(narrow, ops.LINK_SESSION, NOTHING).code)
    me = house.call(session.token, identity.WHOAMI, NOTHING)
    assert (me.scopes, me.projects, me.zone) == (("read", "session.link"), ("default",), "home")


def test_closing_a_session_ends_it_and_keeps_the_tokens_made_in_it(house: House) -> None:
    session = open_with(house, house.call(house.owner, ops.LINK_SESSION, NOTHING).code)
    made = house.token(session.token)
    house.call(session.token, ops.CLOSE_SESSION, NOTHING)
    with pytest.raises(Unauthenticated):
        house.call(session.token, identity.WHOAMI, NOTHING)
    house.call(made, identity.WHOAMI, NOTHING)


def test_a_pass_does_not_close_the_session_it_came_from(house: House) -> None:
    short = house.call(house.owner, identity.EXCHANGE_TOKEN, identity.ExchangeToken()).token
    with pytest.raises(Forbidden) as refused:
        house.call(short, ops.CLOSE_SESSION, NOTHING)
    assert refused.value.rule == "token.process"
    house.call(house.owner, identity.WHOAMI, NOTHING)


def test_without_a_provider_there_is_none_to_sign_in_with(house: House) -> None:
    with pytest.raises(NotFound):
        house.call(None, ops.START_OIDC, NOTHING)


# The identity provider


@pytest.fixture
def provider_of(oidc_provider: Any) -> Iterator[Callable[..., OidcProvider]]:
    made: list[OidcProvider] = []

    def make(**changed: Any) -> OidcProvider:
        made.append(OidcProvider(_settings(oidc_provider, changed)))
        return made[-1]

    yield make
    for provider in made:
        provider.close()


def _settings(oidc_provider: Any, changed: dict[str, Any]) -> OidcSettings:
    settings = {
        "issuer": oidc_provider.issuer,
        "client_id": oidc_provider.client_id,
        "client_secret": oidc_provider.client_secret,
        "cli_client_id": oidc_provider.cli_client_id,
        "redirect_url": CALLBACK,
        **changed,
    }
    return OidcSettings(**settings)


@pytest.fixture
def joined(houses: Houses, provider_of: Callable[..., OidcProvider]) -> House:
    house = houses.open(oidc=provider_of())
    house.clock.moment = SystemClock().now()
    house.owner = house.token(house.owner)
    request = members.ProjectGroupRole(project="default", group="ml-team", role=Role.SCIENTIST)
    house.call(house.owner, members.MAP_GROUP, request)
    return house


def come_back(house: House, oidc_provider: Any, user: str) -> ops.FinishOidc:
    started = house.call(None, ops.START_OIDC, NOTHING)
    house.clock.moment = SystemClock().now()
    back = parse_qs(urlsplit(oidc_provider.log_in(started.url, user)).query)
    assert back["state"] == [started.state]
    return ops.FinishOidc(code=back["code"][0], state=back["state"][0])


def sign_in(house: House, oidc_provider: Any, user: str) -> ops.Session:
    return house.call(None, ops.FINISH_OIDC, come_back(house, oidc_provider, user))


def test_a_person_signs_in_through_the_provider_and_has_the_roles_of_the_groups(joined: House, oidc_provider: Any) -> None:
    session = sign_in(joined, oidc_provider, "layla")
    me = joined.call(session.token, identity.WHOAMI, NOTHING)
    assert (me.name, me.display) == ("layla", "Layla")
    assert [(entry.project, entry.role) for entry in me.roles] == [("default", Role.SCIENTIST)]
    joined.touch(session.token, Group.WRITE, "default")
    assert joined.call(sign_in(joined, oidc_provider, "layla").token, identity.WHOAMI, NOTHING).id == me.id


def test_someone_without_a_mapped_group_is_not_let_in(joined: House, oidc_provider: Any) -> None:
    for user in ("omar", "noor"):
        with pytest.raises(Forbidden) as refused:
            sign_in(joined, oidc_provider, user)
        assert refused.value.rule == "identity.no-role"
    listed = joined.call(joined.owner, identity.LIST_USERS, identity.ListUsers()).items
    assert [user.name for user in listed] == ["owner"]


def test_a_name_that_is_taken_is_not_taken_over(joined: House, oidc_provider: Any) -> None:
    joined.call(joined.owner, identity.CREATE_USER, identity.CreateUser(name="layla", email="layla@example.org"))
    joined.give("layla", "platform", Role.ADMIN)
    me = joined.call(sign_in(joined, oidc_provider, "layla").token, identity.WHOAMI, NOTHING)
    assert me.name == "layla-2"
    assert me.platform_roles == ()


def test_a_role_goes_with_the_group(joined: House, oidc_provider: Any) -> None:
    session = sign_in(joined, oidc_provider, "layla")
    request = members.ProjectGroupRole(project="default", group="ml-team", role=Role.SCIENTIST)
    joined.call(joined.owner, members.UNMAP_GROUP, request)
    with pytest.raises(NotFound):
        joined.touch(session.token, Group.READ, "default")


def test_roles_are_recomputed_at_each_sign_in(
    joined: House, oidc_provider: Any, provider_of: Callable[..., OidcProvider]
) -> None:
    """The provider's group stays; what it is called here changes meanwhile, as if the person had left it."""
    old = sign_in(joined, oidc_provider, "layla")
    joined.sessions._provider = provider_of(groups_claim="no_such_claim")
    new = sign_in(joined, oidc_provider, "layla")
    for session in (old, new):
        with pytest.raises(NotFound):
            joined.touch(session.token, Group.READ, "default")


def test_a_sign_in_is_finished_once_and_only_where_it_was_begun(joined: House, oidc_provider: Any) -> None:
    finish = come_back(joined, oidc_provider, "layla")
    rows = str(joined.database.read(lambda work: work.execute(select(oidc_states)).all()))
    assert finish.state not in rows
    with pytest.raises(Unauthenticated):
        joined.call(None, ops.FINISH_OIDC, ops.FinishOidc(code=finish.code, state="x" * 43))
    joined.call(None, ops.FINISH_OIDC, finish)
    with pytest.raises(Unauthenticated):
        joined.call(None, ops.FINISH_OIDC, finish)


def test_a_code_of_another_sign_in_is_refused(joined: House, oidc_provider: Any) -> None:
    """PKCE: the code belongs to the verifier of its own sign-in."""
    mine, theirs = come_back(joined, oidc_provider, "layla"), come_back(joined, oidc_provider, "layla")
    with pytest.raises(Unauthenticated):
        joined.call(None, ops.FINISH_OIDC, ops.FinishOidc(code=theirs.code, state=mine.state))


def test_a_disabled_person_does_not_come_back_through_the_provider(joined: House, oidc_provider: Any) -> None:
    sign_in(joined, oidc_provider, "layla")
    joined.call(joined.owner, identity.DISABLE_USER, identity.OneUser(user="layla"))
    with pytest.raises(Forbidden) as refused:
        sign_in(joined, oidc_provider, "layla")
    assert refused.value.rule == "identity.disabled"


def id_token_for_cli(oidc_provider: Any, user: str, nonce: str) -> str:
    """What the command line does: loopback redirect, PKCE, no secret."""
    verifier = secrets.token_urlsafe(48)
    query = {
        "response_type": "code",
        "client_id": oidc_provider.cli_client_id,
        "redirect_uri": CALLBACK,
        "scope": "openid profile email groups",
        "state": "s",
        "nonce": nonce,
        "code_challenge": challenge_for(verifier),
        "code_challenge_method": "S256",
    }
    documents = httpx.get(f"{oidc_provider.issuer}/.well-known/openid-configuration").json()
    back = parse_qs(urlsplit(oidc_provider.log_in(f"{documents['authorization_endpoint']}?{urlencode(query)}", user)).query)
    form = {
        "grant_type": "authorization_code",
        "code": back["code"][0],
        "redirect_uri": CALLBACK,
        "client_id": oidc_provider.cli_client_id,
        "code_verifier": verifier,
    }
    return str(httpx.post(documents["token_endpoint"], data=form).json()["id_token"])


def test_a_command_line_signs_in_with_its_own_id_token_once(joined: House, oidc_provider: Any) -> None:
    [told] = joined.call(None, identity.PROVIDERS, NOTHING).items
    assert (told.issuer, told.client_id) == (oidc_provider.issuer, oidc_provider.cli_client_id)
    nonce = secrets.token_urlsafe(24)
    request = ops.OidcToken(id_token=id_token_for_cli(oidc_provider, "layla", nonce), nonce=nonce)
    joined.clock.moment = SystemClock().now()
    with pytest.raises(Unauthenticated):
        joined.call(None, ops.OIDC_TOKEN, ops.OidcToken(id_token=request.id_token, nonce="another-nonce-1234"))
    session = joined.call(None, ops.OIDC_TOKEN, request)
    joined.touch(session.token, Group.READ, "default")
    with pytest.raises(Unauthenticated):
        joined.call(None, ops.OIDC_TOKEN, request)


def test_an_id_token_for_another_client_is_refused(
    joined: House, oidc_provider: Any, provider_of: Callable[..., OidcProvider]
) -> None:
    joined.sessions._provider = provider_of(cli_client_id="somebody-else")
    nonce = secrets.token_urlsafe(24)
    request = ops.OidcToken(id_token=id_token_for_cli(oidc_provider, "layla", nonce), nonce=nonce)
    with pytest.raises(Unauthenticated):
        joined.call(None, ops.OIDC_TOKEN, request)


# A provider in the process, for answers that an honest one does not give

ISSUER = "https://id.example.org"
NOW = Moment.parse("2026-11-15T09:00:00Z")
KEY, OTHER = rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 2048)


class FalseProvider:
    """Serves discovery and keys; `asked` counts how often the keys were fetched."""

    def __init__(self, issuer: str = ISSUER) -> None:
        self.issuer, self.asked = issuer, 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/keys":
            self.asked += 1
            key = jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key(), as_dict=True)
            return httpx.Response(200, json={"keys": [{**key, "kid": "k", "use": "sig", "alg": "RS256"}]})
        ends = {"authorization_endpoint": "/auth", "token_endpoint": "/token", "jwks_uri": "/keys"}
        document = {"issuer": self.issuer, **{name: ISSUER + path for name, path in ends.items()}}
        return httpx.Response(200, json=document)


@pytest.fixture
def false() -> Iterator[tuple[FalseProvider, OidcProvider]]:
    server = FalseProvider()
    with httpx.Client(transport=httpx.MockTransport(server)) as http:
        yield server, OidcProvider(OidcSettings(issuer=ISSUER, client_id="me", redirect_url=CALLBACK), http=http)


def signed(key: Any = KEY, algorithm: str = "RS256", headers: dict[str, Any] | None = None, **changed: Any) -> str:
    seconds = NOW // 1_000_000
    claims = {"iss": ISSUER, "aud": "me", "sub": "layla", "nonce": "n" * 20, "iat": seconds, "exp": seconds + 300, **changed}
    return jwt.encode(
        {name: said for name, said in claims.items() if said is not None},
        key,
        algorithm,
        headers={"kid": "k", **(headers or {})},
    )


def test_a_true_id_token_is_accepted(false: tuple[FalseProvider, OidcProvider]) -> None:
    person = false[1].verify(signed(groups=["a"], email="Layla.H@x.org"), nonce="n" * 20, now=NOW)
    assert (person.subject, person.login, person.groups) == ("layla", "layla.h", frozenset({"a"}))


def test_a_login_that_looks_like_an_id_becomes_another_name(false: tuple[FalseProvider, OidcProvider]) -> None:
    person = false[1].verify(signed(preferred_username="AB" * 16), nonce="n" * 20, now=NOW)
    assert person.login == "user-" + "ab" * 16


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": OTHER},
        {"key": "secret" * 10, "algorithm": "HS256"},
        {"key": None, "algorithm": "none"},
        {"algorithm": "RS512"},
        {"headers": {"kid": "unknown"}},
        {"headers": {"jku": "https://evil.example/keys"}},
        {"headers": {"jwk": {"kty": "RSA"}}},
        {"iss": "https://evil.example"},
        {"aud": "somebody-else"},
        {"aud": ["me", "somebody-else"]},
        {"azp": "somebody-else"},
        {"nonce": "m" * 20},
        {"nonce": None},
        {"sub": None},
        {"sub": ""},
        {"exp": NOW // 1_000_000 - 61},
        {"exp": None},
        {"iat": NOW // 1_000_000 + 61},
        {"iat": NOW // 1_000_000 - 601},
        {"nbf": NOW // 1_000_000 + 61},
        {"groups": "admins"},
        {"groups": [1]},
    ],
)
def test_a_false_id_token_is_refused(false: tuple[FalseProvider, OidcProvider], wrong: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated):
        false[1].verify(signed(**wrong), nonce="n" * 20, now=NOW)


def test_unknown_keys_make_us_ask_again_at_most_once_a_minute(false: tuple[FalseProvider, OidcProvider]) -> None:
    server, provider = false
    for _ in range(5):
        with pytest.raises(Unauthenticated):
            provider.verify(signed(headers={"kid": "unknown"}), nonce="n" * 20, now=NOW)
    assert server.asked == 1
    with pytest.raises(Unauthenticated):
        provider.verify(signed(headers={"kid": "unknown"}), nonce="n" * 20, now=Moment(NOW + MINUTE))
    assert server.asked == 2


def test_discovery_for_another_issuer_is_refused(false: tuple[FalseProvider, OidcProvider]) -> None:
    false[0].issuer = "https://evil.example"
    with pytest.raises(Unauthenticated):
        false[1].authorisation_url(state="s", nonce="n", verifier="v", now=NOW)


def test_a_provider_without_tls_is_refused() -> None:
    with pytest.raises(Invalid):
        OidcProvider(OidcSettings(issuer="http://id.example.org", client_id="me", redirect_url=CALLBACK))


def test_a_silent_provider_is_a_temporary_trouble() -> None:
    provider = OidcProvider(OidcSettings(issuer="http://127.0.0.1:9", client_id="me", redirect_url=CALLBACK))
    with pytest.raises(Unavailable):
        provider.authorisation_url(state="s", nonce="n", verifier="v", now=Moment(NOW + HOUR))
