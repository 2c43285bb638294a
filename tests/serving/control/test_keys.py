"""Tokens and keys for endpoints: who gets which, and how they end."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from falaj.base.clock import DAY, MINUTE, SECOND
from falaj.base.errors import Forbidden, NotFound, Unauthenticated
from falaj.governance.identity.operations import (
    CREATE_TOKEN,
    DISABLE_USER,
    EXCHANGE_TOKEN,
    CreateToken,
    ExchangeToken,
    OneUser,
)
from falaj.governance.roles import Role
from falaj.keys.operations import KEY_ROTATE_SIGNING, RotateSigning
from falaj.serving import tokens
from falaj.serving.operations import keys as declared
from falaj.serving.states import State
from tests.serving.control.conftest import Opener
from tests.serving.control.platform import PROJECT, Platform


def ask(platform: Platform, token: str = "", endpoint: str = "", project: str = PROJECT) -> declared.EndpointToken:
    return platform.call(declared.ASK_FOR_TOKEN, declared.AskForToken(project=project, endpoint=endpoint), token)


def claims_of(platform: Platform, state: State, text: str) -> tokens.Claims:
    keys = {id: Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)) for id, public in state.token_keys.items()}
    return tokens.verify(text, keys, issuer=state.issuer, now=platform.clock.now())


def revoke(platform: Platform, key: str, token: str = "", project: str = PROJECT) -> None:
    platform.call(declared.REVOKE_KEY, declared.RevokeKey(project=project, key=key), token)


def test_a_token_is_verified_by_what_the_state_says(platform: Platform) -> None:
    endpoint = platform.deployed()
    state = platform.plane().state()
    for one in (ask(platform), ask(platform, endpoint="scores")):
        claims = claims_of(platform, state, one.token)
        assert (claims.project, claims.expires) == (state.endpoints[0].project, one.expires)
        assert claims.reaches(endpoint.id)
        assert claims.manage
    with pytest.raises(NotFound, match="no endpoint 'other'"):
        ask(platform, endpoint="other")


@pytest.mark.parametrize(("profile", "life"), [("solo", 15 * MINUTE), ("regulated", 5 * MINUTE)])
def test_a_short_lived_token_is_short_lived(opener: Opener, profile: str, life: int) -> None:
    platform = opener(profile)
    assert life - 2 * SECOND < ask(platform).expires - platform.clock.now() <= life


def test_a_token_ends_with_the_one_it_was_asked_for_with(small: Platform) -> None:
    made = small.call(CREATE_TOKEN, CreateToken(label="short", days=1))
    small.clock.forward(DAY - MINUTE)
    assert ask(small, made.token).expires <= made.expires


def test_only_who_may_deploy_gets_a_token_that_manages(small: Platform) -> None:
    small.deployed()
    state = small.plane().state()
    scientist, viewer = small.person("sam", Role.SCIENTIST), small.person("vera", Role.VIEWER)
    assert not claims_of(small, state, ask(small, scientist).token).manage
    with pytest.raises(Forbidden):
        ask(small, viewer)
    with pytest.raises(Forbidden):
        small.key(scientist)


def test_another_projects_endpoints_are_none_of_its_tokens(small: Platform) -> None:
    small.deployed()
    small.project("other")
    with pytest.raises(NotFound):
        ask(small, endpoint="scores", project="other")
    with pytest.raises(NotFound):
        small.key(project="other", endpoints=("scores",))
    assert claims_of(small, small.plane().state(), ask(small, project="other").token).project != (
        small.plane("second").state().endpoints[0].project
    )


def test_a_key_is_good_until_it_is_revoked_and_then_stands_in_the_state(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    made = platform.key(endpoints=("scores",))
    state = plane.state()
    claims = claims_of(platform, state, made.token)
    assert (claims.id, claims.endpoints) == (made.key.id, frozenset({platform.show().id}))
    assert state.revoked == ()
    before = plane.signed().serial
    revoke(platform, made.key.id)
    assert plane.signed().serial > before
    assert plane.state().revoked == (made.key.id,)
    (listed,) = platform.call(declared.LIST_KEYS, declared.ListKeys(project=PROJECT)).items
    assert (listed.endpoints, listed.revoked is not None) == (("scores",), True)


def test_a_revoked_key_leaves_the_state_when_it_would_have_expired(small: Platform) -> None:
    small.deployed()
    plane = small.plane()
    made = small.key(days=1)
    revoke(small, made.key.id)
    small.clock.forward(2 * DAY)
    small.deploy(1)
    assert plane.state().revoked == ()
    with pytest.raises(Unauthenticated):
        claims_of(small, plane.state(), made.token)


def test_a_disabled_persons_keys_fall(small: Platform) -> None:
    engineer = small.person("eve", Role.ENGINEER)
    made = small.key(engineer)
    plane = small.plane()
    small.call(DISABLE_USER, OneUser(user="eve"))
    small.step()
    assert plane.state().revoked == (made.key.id,)


def test_a_key_is_not_found_in_another_project(small: Platform) -> None:
    made = small.key()
    small.project("other")
    with pytest.raises(NotFound, match="no endpoint key"):
        revoke(small, made.key.id, project="other")


def test_nothing_made_with_a_token_has_more_power_or_a_longer_life(opener: Opener) -> None:
    platform = opener("team")
    with pytest.raises(Forbidden) as refused:
        platform.key(days=200)
    assert refused.value.rule == "token.life"
    narrow = platform.call(CREATE_TOKEN, CreateToken(label="narrow", scopes=("endpoint.keys",))).token
    with pytest.raises(Forbidden) as refused:
        platform.key(narrow)
    assert refused.value.rule == "token.scope"
    wider = platform.call(CREATE_TOKEN, CreateToken(label="wider", scopes=("endpoint.keys", "endpoint.predict"))).token
    platform.key(wider)
    with pytest.raises(Forbidden):
        platform.key(wider, manage=True)
    passed = platform.call(EXCHANGE_TOKEN, ExchangeToken()).token
    with pytest.raises(Forbidden) as refused:
        platform.key(passed)
    assert refused.value.rule == "token.process"


def test_keys_outlive_a_rotation_and_a_retired_key_is_trusted_no_longer_than_needed(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    made, short = platform.key(), ask(platform)
    first = set(plane.state().token_keys)
    platform.call(KEY_ROTATE_SIGNING, RotateSigning(purpose="serving"))
    platform.step()
    assert set(plane.state().token_keys) > first
    assert claims_of(platform, plane.state(), made.token).id == made.key.id
    assert claims_of(platform, plane.state(), short.token).expires == short.expires
    platform.clock.forward(16 * MINUTE)
    platform.step()
    assert set(plane.state().token_keys) > first
    revoke(platform, made.key.id)
    assert not set(plane.state().token_keys) & first


def test_the_token_of_a_key_is_in_no_leaf_and_no_table(small: Platform) -> None:
    made, short = small.key(), ask(small)
    small.app.sequencer.step(close_all_windows=True)
    for text in (made.token, short.token):
        signature = text.rpartition(".")[2].encode()
        for file in small.app.home.path.rglob("falaj.db*"):
            assert signature not in file.read_bytes()
    assert small.leaves("endpoint.key-create")[0].facts["key"] == made.key.id
