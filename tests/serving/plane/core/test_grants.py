"""Tokens that were verified, remembered."""

import jwt
import pytest

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.base.errors import TooMany, Unauthenticated
from falaj.serving.plane.core import grants
from falaj.serving.plane.core.grants import FAILURES_PER_SECOND, MOST, Grants
from falaj.serving.tokens import Claims, issue
from tests.serving.plane.core.worker import ISSUER, PROJECT, Signer

START = Moment.parse("2026-11-15T09:00:00Z")


class HandClock:
    def __init__(self) -> None:
        self.moment = START

    def now(self) -> Moment:
        return self.moment


class Desk:
    """Grants, who signs for them, and how often a signature was looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.signer, self.forger, self.verified = HandClock(), Signer(), Signer(), 0
        self.names: dict[str, object] = {"scores": object()}
        self.grants = Grants(self.clock, lambda project: self.names if project == PROJECT else {})
        real = grants.verify

        def verify(*arguments, **named):
            self.verified += 1
            return real(*arguments, **named)

        monkeypatch.setattr(grants, "verify", verify)
        self.adopt()

    def adopt(self, revoked: tuple[str, ...] = (), signer: Signer | None = None) -> None:
        self.grants.adopt(ISSUER, {"k1": (signer or self.signer).public}, revoked)

    def forged(self, id: int = 1) -> str:
        """As a token of ours in everything but the signature."""
        return self.token(id, signer=self.forger)

    def token(
        self, id: int = 1, *, lives: int = HOUR, only: tuple[str, ...] = (), signer: Signer | None = None, issuer: str = ISSUER
    ) -> str:
        claims = Claims(
            principal="1" * 32,
            id=f"{id:032x}",
            project=PROJECT,
            endpoints=frozenset(only),
            manage=False,
            not_before=self.clock.moment,
            expires=Moment(self.clock.moment + lives),
        )
        return issue(signer or self.signer, claims, issuer=issuer, now=self.clock.moment)


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(monkeypatch)


def test_a_token_is_verified_once_and_found_again(desk: Desk):
    token = desk.token(only=("c" * 32,))
    first = desk.grants.of(token, 100.0)
    assert desk.grants.of(token, 101.0) is first
    assert desk.verified == 1
    assert (first.project, first.principal, first.only) == (PROJECT, "1" * 32, frozenset({"c" * 32}))
    assert first.names is desk.names


def test_a_remembered_token_ends_when_it_expires(desk: Desk):
    token = desk.token(lives=10 * SECOND)
    desk.grants.of(token, 100.0)
    assert desk.grants.of(token, 109.9)
    desk.clock.moment = Moment(START + 10 * SECOND)
    with pytest.raises(Unauthenticated):
        desk.grants.of(token, 110.0)


def test_the_times_of_a_remembered_token_are_looked_at_anew_after_a_while(desk: Desk):
    token = desk.token()
    desk.grants.of(token, 100.0)
    desk.grants.of(token, 500.0)
    assert desk.verified == 1
    desk.clock.moment = Moment(START + 2 * HOUR)  # somebody set the clock
    with pytest.raises(Unauthenticated):
        desk.grants.of(token, 900.0)


def test_a_flood_of_bad_tokens_shuts_out_neither_who_is_known_for_long_nor_who_is_new_for_ever(desk: Desk):
    old, new, looked_at, let_in = desk.token(1), desk.token(2), 0, 0
    forged = [desk.forged(number) for number in range(FAILURES_PER_SECOND * 3)]
    desk.grants.of(old, 100.0)
    for second in range(20):
        now = 500.0 + 1.01 * second
        for number in range(FAILURES_PER_SECOND * 3):
            try:
                desk.grants.of(forged[number], now)
            except Unauthenticated:
                looked_at += 1
            except TooMany:
                continue
        assert desk.grants.of(old, now)
        try:
            let_in += desk.grants.of(new, now) is not None
        except TooMany:
            continue
    assert let_in > 0
    assert looked_at <= 20 * FAILURES_PER_SECOND * 2


def test_a_key_that_is_revoked_costs_the_others_no_verification(desk: Desk):
    one, other = desk.token(1), desk.token(2)
    desk.grants.of(one, 100.0)
    desk.grants.of(other, 100.0)
    desk.adopt(revoked=(f"{1:032x}",))
    desk.grants.of(other, 100.1)
    assert desk.verified == 2
    with pytest.raises(Unauthenticated):
        desk.grants.of(one, 100.1)
    desk.adopt()
    assert desk.grants.of(one, 100.2)


def test_a_token_that_is_revoked_holds_no_more(desk: Desk):
    token, other = desk.token(1), desk.token(2)
    desk.grants.of(token, 100.0)
    desk.adopt(revoked=(f"{1:032x}",))
    with pytest.raises(Unauthenticated):
        desk.grants.of(token, 100.1)
    assert desk.grants.of(other, 100.1)


def test_tokens_of_a_key_that_went_hold_no_more(desk: Desk):
    token = desk.token()
    desk.grants.of(token, 100.0)
    desk.adopt(signer=Signer())
    with pytest.raises(Unauthenticated):
        desk.grants.of(token, 100.1)


def test_a_state_that_changes_no_key_costs_no_verification(desk: Desk):
    token = desk.token()
    desk.grants.of(token, 100.0)
    desk.adopt()
    desk.grants.of(token, 100.1)
    assert desk.verified == 1


def test_the_same_bad_token_is_looked_at_once_a_second(desk: Desk):
    forged = desk.forged()
    for _ in range(1000):
        with pytest.raises(Unauthenticated):
            desk.grants.of(forged, 100.0)
    assert desk.verified == 1
    with pytest.raises(Unauthenticated):
        desk.grants.of(forged, 101.5)
    assert desk.verified == 2


def test_a_flood_of_bad_tokens_is_looked_at_up_to_a_rate_and_known_callers_go_on(desk: Desk):
    good = desk.token()
    desk.grants.of(good, 100.0)
    refusals = []
    for number in range(FAILURES_PER_SECOND * 3):
        with pytest.raises((Unauthenticated, TooMany)) as refusal:
            desk.grants.of(desk.forged(number), 100.5, f"10.0.0.{number % 200}")
        refusals.append(refusal.type)
        assert desk.grants.of(good, 100.5)
    assert FAILURES_PER_SECOND * 0.9 <= refusals.count(Unauthenticated) <= FAILURES_PER_SECOND * 1.2
    assert desk.verified == refusals.count(Unauthenticated) + 1
    assert desk.grants.of(desk.token(5), 101.6)


def test_what_cannot_be_ours_is_refused_without_a_look_at_its_signature_and_keeps_nobody_waiting(desk: Desk):
    stranger, fresh = Signer(), desk.token(7)
    stranger.key_id = "k2"
    header, payload, signature = fresh.split(".")
    bad = [
        "garbage",
        "a.b.c",
        desk.token(signer=stranger),
        desk.token(issuer="https://elsewhere.test"),
        f"{header}.{payload}",
        f"{header}.{payload}.{signature}A",
        f"{header}.!.{signature}",
        f"{header}.W10.{signature}",
        f"{header}.{payload[:-4]}.{signature}",
        jwt.encode({"iss": ISSUER}, "secret" * 8, headers={"kid": "k1"}),
    ]
    desk.clock.moment = Moment(START - HOUR)
    bad.append(desk.token(lives=HOUR // 2))
    desk.clock.moment = START
    for number in range(FAILURES_PER_SECOND * 4):
        with pytest.raises(Unauthenticated):
            desk.grants.of(bad[number % len(bad)], 100.0)
    assert desk.verified == 0
    assert desk.grants.of(fresh, 100.0)


def test_a_flood_from_some_addresses_does_not_shut_out_fresh_tokens_from_others(desk: Desk):
    forged = [desk.forged(number) for number in range(2000)]
    for number, text in enumerate(forged):
        with pytest.raises((Unauthenticated, TooMany)):
            desk.grants.of(text, 100.0, f"10.0.0.{number % 40}")
        if number % 10 == 0:
            assert desk.grants.of(desk.token(10_000 + number), 100.0, f"10.1.0.{number % 250}")
    assert desk.verified <= FAILURES_PER_SECOND * 2 + 200


def test_no_token_and_a_huge_one_are_refused_without_a_look(desk: Desk):
    for text in ("", "x" * 100_000):
        with pytest.raises(Unauthenticated):
            desk.grants.of(text, 100.0)
    assert desk.verified == 0


def test_so_many_tokens_are_remembered_and_no_more(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    claims = Claims(
        principal="1" * 32,
        id="2" * 32,
        project=PROJECT,
        endpoints=frozenset(),
        manage=False,
        not_before=START,
        expires=Moment(START + HOUR),
    )
    monkeypatch.setattr(grants, "look_over", lambda *_, **__: claims)
    monkeypatch.setattr(grants, "verify", lambda *_, **__: claims)
    for number in range(MOST + 5):
        desk.grants.of(f"token {number}", 100.0)
    assert len(desk.grants._known) <= MOST
    assert f"token {MOST + 4}" in desk.grants._known
    assert "token 0" not in desk.grants._known
