"""A plane believes its platform alone, and only what is newer."""

import errno
import hashlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from falaj.base.errors import Corrupt, Unavailable
from falaj.keys.endorsements import endorsed_bytes
from falaj.serving.operations.planes import Endorsed, Report, SignedState
from falaj.serving.plane.following import FIRST_WAIT, LONGEST_WAIT, Follower
from falaj.serving.plane.keeping import StateFile, verified
from falaj.serving.plane.models import SealedModels
from falaj.serving.states import FORMAT, PURPOSE, Arm, Endpoint, File, Revision, Rung, State, encode

CONTENT = b"weights"


class Signer:
    def __init__(self, id: str) -> None:
        self.id, self._private = id, Ed25519PrivateKey.generate()
        self.public = self._private.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> str:
        return self._private.sign(message).hex()


def state_of(serial: int, *, issued: int | None = None, format: int = FORMAT, content: bytes = CONTENT) -> State:
    file = File(name="model.onnx", size=len(content), digest=hashlib.sha256(content).hexdigest())
    revision = Revision(id="1" * 32, number=1, model="m", version=1, runtime="onnx", file="model.onnx", files=(file,))
    endpoint = Endpoint(
        id="2" * 32, project="3" * 32, project_name="p", name="e", arms=(Arm(revision=1, share=10_000),), revisions=(revision,)
    )
    return State(
        format=format, serial=serial, issued=issued or serial, issuer="falaj", zone="home", endpoints=(endpoint,), token_keys={}
    )


def signed(state: State, signer: Signer, *endorsements: Endorsed) -> SignedState:
    body = encode(state)
    return SignedState(
        serial=state.serial, body=body.decode(), key=signer.id, signature=signer.sign(body), endorsements=endorsements
    )


class Control:
    """A control plane that says what it is told to say."""

    def __init__(self) -> None:
        self.newest: SignedState | None = None
        self.content: bytes | None = CONTENT
        self.files_asked_for = 0

    def state(self, after: int) -> SignedState:
        if self.newest is None:
            raise Unavailable("gone")
        return replace(self.newest, body="") if after == self.newest.serial else self.newest

    def file(self, revision: str, file: str) -> Iterator[bytes]:
        self.files_asked_for += 1
        if self.content is None:
            raise Unavailable("no file")
        yield self.content

    def report(self, report: Report) -> None: ...


@pytest.fixture
def signer() -> Signer:
    return Signer("a" * 32)


@pytest.fixture
def control() -> Control:
    return Control()


class Passing:
    """Seconds that a test lets pass."""

    passed = 100.0

    def __call__(self) -> float:
        return self.passed


@pytest.fixture
def clock() -> Passing:
    return Passing()


@pytest.fixture
def follower(tmp_path: Path, signer: Signer, control: Control, clock: Passing) -> Follower:
    return follower_in(tmp_path, signer, control, now=clock)


def follower_in(tmp_path: Path, signer: Signer, control: Control | None, zone: str = "home", **more: Passing) -> Follower:
    trusted = {signer.id: signer.public}
    (tmp_path / "models").mkdir(exist_ok=True)
    kept = StateFile(tmp_path / "state.sealed", trusted, bytes(32))
    return Follower(control, kept, SealedModels(tmp_path / "models", bytes(32)), trusted, lambda: zone, **more)


def test_a_new_state_is_taken_with_its_models_and_survives_a_restart(tmp_path, follower, control, signer):
    control.newest = signed(state_of(1), signer)
    assert follower.step()
    assert not follower.step()
    alone = follower_in(tmp_path, signer, None)
    assert alone.recall()
    assert alone.state == state_of(1)


def test_a_state_under_another_key_changes_nothing(follower, control, signer):
    control.newest = signed(state_of(1), signer)
    follower.step()
    forger = Signer(signer.id)
    control.newest = signed(state_of(2), forger)
    with pytest.raises(Corrupt, match="not signed by the platform"):
        follower.step()
    assert follower.state == state_of(1)


def test_an_older_state_is_refused_even_where_it_is_signed(follower, control, signer):
    control.newest = signed(state_of(5), signer)
    follower.step()
    control.newest = signed(state_of(4), signer)
    with pytest.raises(Corrupt, match="older"):
        follower.step()


def test_a_key_that_was_handed_over_to_is_followed_and_a_planted_one_is_not(signer):
    heir, planted = Signer("b" * 32), Signer("c" * 32)
    handed = Endorsed(
        key=heir.id,
        public=heir.public.hex(),
        by=signer.id,
        signature=signer.sign(endorsed_bytes(PURPOSE, heir.id, heir.public)),
    )
    trusted = {signer.id: signer.public}
    assert verified(signed(state_of(1), heir, handed), trusted) == state_of(1)
    self_made = Endorsed(
        key=planted.id,
        public=planted.public.hex(),
        by=signer.id,
        signature=planted.sign(endorsed_bytes(PURPOSE, planted.id, planted.public)),
    )
    with pytest.raises(Corrupt):
        verified(signed(state_of(1), planted, self_made), trusted)


def test_a_state_of_another_format_is_told_apart(signer):
    with pytest.raises(Corrupt, match="same version"):
        verified(signed(state_of(1, format=2), signer), {signer.id: signer.public})


def test_a_state_file_that_was_changed_is_not_served_by(tmp_path, follower, control, signer):
    control.newest = signed(state_of(1), signer)
    follower.step()
    file = tmp_path / "state.sealed"
    changed = bytearray(file.read_bytes())
    changed[len(changed) // 2] ^= 1
    file.write_bytes(changed)
    alone = follower_in(tmp_path, signer, None)
    assert not alone.recall()
    assert alone.state is None


def test_a_state_on_disk_shows_nothing_to_whoever_reads_the_disk(tmp_path, follower, control, signer):
    control.newest = signed(state_of(1), signer)
    follower.step()
    assert b"share" not in (tmp_path / "state.sealed").read_bytes()


def test_a_state_of_another_zone_is_refused_even_where_it_is_signed(tmp_path, follower, control, signer):
    control.newest = signed(state_of(1), signer)
    elsewhere = follower_in(tmp_path, signer, control, zone="abroad")
    with pytest.raises(Corrupt, match="'abroad'"):
        elsewhere.step()
    assert elsewhere.state is None
    follower.step()
    assert not elsewhere.recall()


def test_a_model_that_does_not_come_is_told_and_asked_for_again(follower, control, signer, clock):
    control.newest, control.content = signed(state_of(1), signer), None
    assert follower.step()
    assert follower.problems == {"1" * 32: "no file"}
    control.content = CONTENT
    assert not follower.step()
    clock.passed += FIRST_WAIT
    assert follower.step()
    assert follower.problems == {}


def test_a_model_that_does_not_come_is_asked_for_less_and_less_often(follower, control, signer, clock, caplog):
    control.newest, control.content = signed(state_of(1), signer), None
    asked = []
    for _ in range(2000):  # as often as a plane looks, for ten minutes
        before = control.files_asked_for
        follower.step()
        if control.files_asked_for > before:
            asked.append(clock.passed)
        clock.passed += 0.3
    waits = [round(after - before, 3) for before, after in pairwise(asked)]
    assert waits == sorted(waits)
    assert waits[0] < 1
    assert LONGEST_WAIT <= waits[-1] < LONGEST_WAIT + 0.6
    assert len(asked) < 30
    assert len(caplog.messages) == len(asked)
    assert "'model.onnx' of m:1 was not fetched and is asked for again in 30 s: no file" in caplog.messages[-1]
    control.newest = signed(state_of(2, content=b"another"), signer)
    control.content = b"another"  # what failed says nothing about other files
    assert follower.step()
    assert follower.problems == {}


def test_a_revision_does_without_a_rung_that_does_not_come_until_it_comes(tmp_path, follower, control, signer, clock):
    state = state_of(1)
    (endpoint,), rung_file = state.endpoints, File(name="ladder/1/m", size=1, digest=hashlib.sha256(b"r").hexdigest())
    rung = Rung(name="int8", runtime="onnx", file=rung_file.name, files=(rung_file,))
    revisions = (replace(endpoint.revisions[0], ladder=(rung,)),)
    state = replace(state, endpoints=(replace(endpoint, revisions=revisions),))
    control.newest = signed(state, signer)
    assert follower.step()  # what came for the rung is something else
    assert follower.problems == {}
    assert [path.name for path in (tmp_path / "models").iterdir()] == [endpoint.revisions[0].files[0].digest]
    clock.passed += FIRST_WAIT
    control.content = b"r"
    assert follower.step()  # workers are told again, and have it loaded
    assert (tmp_path / "models" / rung_file.digest).exists()
    assert not follower.step()


def test_a_model_that_was_spoilt_on_disk_is_fetched_again(tmp_path, follower, control, signer):
    control.newest = signed(state_of(1), signer)
    follower.step()
    [file] = (tmp_path / "models").iterdir()
    file.unlink()
    follower.step()
    assert [file] == list((tmp_path / "models").iterdir())


def test_a_model_that_is_not_what_was_signed_is_told_and_not_kept(tmp_path, follower, control, signer):
    control.newest, control.content = signed(state_of(1), signer), b"poison!"
    follower.step()
    assert "not what was signed" in follower.problems["1" * 32]
    assert list((tmp_path / "models").iterdir()) == []


def test_a_control_plane_that_is_gone_leaves_everything_as_it_is(follower, control, signer):
    control.newest = signed(state_of(1), signer)
    follower.step()
    control.newest = None
    with pytest.raises(Unavailable):
        follower.step()
    assert follower.state == state_of(1)


def test_a_disk_without_room_costs_the_model_that_does_not_fit_and_not_the_state(follower, control, signer, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SealedModels, "keep", full)
    monkeypatch.setattr(StateFile, "write", full)
    control.newest = signed(state_of(5), signer)
    assert follower.step()
    assert follower.state.serial == 5
    assert "No space left" in follower.problems["1" * 32]
