"""Planes: what they are given, and what they are not."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from falaj.app.planes import plane_of
from falaj.base.clock import DAY, HOUR, SECOND
from falaj.base.errors import Conflict, Corrupt, Forbidden, NotFound, Unauthenticated
from falaj.base.operation import Operation
from falaj.base.values import Nothing
from falaj.database.work import UnitOfWork
from falaj.governance.identity.member_operations import REMOVE_MEMBER, RemoveMember
from falaj.governance.identity.operations import CREATE_TOKEN, EXCHANGE_TOKEN, WHOAMI, CreateToken, ExchangeToken
from falaj.governance.projects.operations import DELETE_PROJECT, UPDATE_PROJECT, OneProject, UpdateProject
from falaj.governance.roles import Role
from falaj.keys.operations import KEY_ROTATE_SIGNING, RotateSigning
from falaj.serving.operations import planes as declared
from falaj.serving.operations.endpoints import READ_REVISIONS, ReadRevisions
from falaj.serving.operations.planes import FetchFile, OnePlane, ReadState
from falaj.serving.plane.joining import write_join
from falaj.serving.plane.keeping import verified
from falaj.serving.states import State
from falaj.serving.store.tables import revision_files, revisions, zones
from falaj.storage.operations import KEY_SHRED, ShredProject
from tests.serving.control.conftest import Opener
from tests.serving.control.platform import ONNX, PROJECT, Plane, Platform


def trusted(plane: Plane) -> dict[str, bytes]:
    return {key.id: bytes.fromhex(key.public) for key in plane.made.keys}


def checked(plane: Plane) -> State:
    return verified(plane.signed(), trusted(plane))


def test_what_is_deployed_stands_in_the_signed_state_and_its_files_can_be_fetched(platform: Platform) -> None:
    version = platform.register()
    made = platform.deploy(version.version)
    plane = platform.plane()
    state = checked(plane)
    (endpoint,) = state.endpoints
    (revision,) = endpoint.revisions
    assert (endpoint.name, endpoint.project_name, state.zone) == ("scores", "default", "home")
    assert (revision.model, revision.version, revision.runtime, revision.file) == ("fraud", 1, "onnx", "model.onnx")
    assert [arm.share for arm in endpoint.arms] == [10_000]
    assert [file.name for file in revision.files] == ["model.onnx"]
    assert plane.fetch(revision.id, "model.onnx") == ONNX
    assert state.serial >= made.endpoint.serial


def test_a_state_that_is_known_is_not_sent_again(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    serial = plane.signed().serial
    assert plane.signed(after=serial) == declared.SignedState(serial=serial)
    platform.deploy(1)
    assert plane.signed(after=serial).serial > serial


def test_the_state_is_the_same_every_time_it_is_asked_for(small: Platform) -> None:
    small.deployed()
    plane = small.plane()
    assert plane.signed() == plane.signed()


def test_the_way_back_is_in_the_state_so_that_it_needs_no_fetching(small: Platform) -> None:
    small.deployed(3)
    plane = small.plane()
    (endpoint,) = plane.state().endpoints
    assert [revision.number for revision in endpoint.revisions] == [2, 3]
    assert endpoint.fallback == 2
    first = small.call(READ_REVISIONS, ReadRevisions(project=PROJECT, endpoint="scores")).items[-1]
    with pytest.raises(NotFound):
        plane.fetch(first.id, "model.onnx")


def test_a_plane_follows_the_rotation_of_the_key_it_pinned(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    for _ in range(2):
        before = plane.signed()
        platform.call(KEY_ROTATE_SIGNING, RotateSigning(purpose="serving"))
        platform.step()
        after = plane.signed(after=before.serial)
        assert after.serial > before.serial
        assert after.key != before.key
        assert verified(after, trusted(plane)).serial == after.serial


def test_a_state_of_another_platform_is_believed_by_no_plane(opener: Opener) -> None:
    first, second = opener("solo"), opener("solo")
    with pytest.raises(Corrupt):
        verified(second.plane().signed(), trusted(first.plane()))


# Whose things a plane sees


def test_a_plane_sees_its_own_zone_alone(platform: Platform) -> None:
    platform.project("abroad", "berlin")
    platform.register(project="abroad")
    platform.deploy(1, project="abroad")
    platform.deployed()
    here, there = platform.plane("here"), platform.plane("there", "berlin")
    (mine,), (theirs,) = here.state().endpoints, there.state().endpoints
    assert (mine.project_name, theirs.project_name) == ("default", "abroad")
    for plane, foreign in ((here, theirs), (there, mine)):
        with pytest.raises(NotFound, match="serves no revision"):
            plane.fetch(foreign.revisions[0].id, "model.onnx")
    with pytest.raises(NotFound, match="no file"):
        here.fetch(mine.revisions[0].id, "../model.onnx")


def test_a_deployment_in_one_zone_leaves_the_state_of_others_alone(small: Platform) -> None:
    small.project("abroad", "berlin")
    there = small.plane("there", "berlin")
    before = there.signed().serial
    small.deployed()
    assert there.signed(after=before).body == ""


def test_an_archived_project_is_served_no_more(platform: Platform) -> None:
    platform.project("old")
    platform.register(project="old")
    platform.deploy(1, project="old")
    plane = platform.plane()
    (endpoint,) = plane.state().endpoints
    before = plane.signed().serial
    platform.call(DELETE_PROJECT, OneProject(project="old"))
    platform.step()
    after = plane.signed(after=before)
    assert after.serial > before
    assert verified(after, trusted(plane)).endpoints == ()
    with pytest.raises(NotFound):
        plane.fetch(endpoint.revisions[0].id, "model.onnx")


def test_a_project_whose_key_was_shredded_is_served_no_more(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    before = plane.signed().serial
    platform.call(KEY_SHRED, ShredProject(project=PROJECT, confirm=PROJECT))
    platform.step()
    assert plane.signed(after=before).serial > before
    assert plane.state().endpoints == ()


def test_a_project_that_gave_up_the_zone_is_served_there_no_more(small: Platform) -> None:
    small.project("moving", "home", "berlin")
    small.register(project="moving")
    small.deploy(1, project="moving", zone="berlin")
    plane = small.plane("there", "berlin")
    assert len(plane.state().endpoints) == 1
    small.call(UPDATE_PROJECT, UpdateProject(project="moving", zones=("home",)))
    small.step()
    assert plane.state().endpoints == ()


def test_a_change_that_no_state_depends_on_gives_no_new_one(small: Platform) -> None:
    small.deployed()
    plane = small.plane()
    small.step()
    before = plane.signed().serial
    small.call(CREATE_TOKEN, CreateToken(label="x"))
    small.step()
    assert plane.signed(after=before).body == ""


# Who is a plane


def test_nobody_but_a_plane_gets_the_state_a_file_or_a_word_in(small: Platform) -> None:
    small.deployed()
    plane = small.plane()
    revision = plane.state().endpoints[0].revisions[0].id
    asked: tuple[tuple[Operation[Any, Any], Any], ...] = (
        (declared.READ_STATE, ReadState()),
        (declared.FETCH_FILE, FetchFile(revision=revision, file="model.onnx")),
        (declared.SEND_REPORT, plane.report()),
    )
    for operation, request in asked:
        with pytest.raises(Forbidden) as refused:
            small.call(operation, request)
        assert refused.value.rule == "plane.required"


def test_a_planes_token_is_good_for_nothing_else(small: Platform) -> None:
    plane = small.plane()
    with pytest.raises(Forbidden) as refused:
        small.call(declared.LIST_PLANES, declared.ListPlanes(), plane.token)
    assert refused.value.rule == "token.scope"
    with pytest.raises(NotFound):
        small.show(token=plane.token)
    with pytest.raises(Forbidden):
        small.call(EXCHANGE_TOKEN, ExchangeToken(scopes=("read",)), plane.token)
    passed = small.call(EXCHANGE_TOKEN, ExchangeToken(), plane.token).token
    assert small.call(declared.READ_STATE, ReadState(), passed).serial
    assert small.call(WHOAMI, Nothing(), plane.token).kind == "service"


def test_a_plane_that_is_shut_out_hears_nothing_more_and_its_name_is_free(platform: Platform) -> None:
    plane = platform.plane()
    with pytest.raises(Conflict, match="already"):
        platform.plane()
    platform.call(declared.DELETE_PLANE, OnePlane(plane="first"))
    with pytest.raises(Unauthenticated):
        plane.signed()
    assert platform.plane().signed().serial
    with pytest.raises(NotFound, match="no serving plane 'second'"):
        platform.call(declared.DELETE_PLANE, OnePlane(plane="second"))


def test_a_plane_needs_a_zone_that_is_there(small: Platform) -> None:
    with pytest.raises(NotFound):
        small.plane(zone="nowhere")


def test_only_an_admin_of_the_platform_lets_a_plane_in(small: Platform) -> None:
    admin_of_a_project = small.person("alice", Role.ADMIN)
    with pytest.raises(Forbidden):
        small.call(declared.CREATE_PLANE, declared.CreatePlane(plane="mine", zone="home"), admin_of_a_project)


def test_planes_are_listed_with_what_they_last_said(small: Platform) -> None:
    small.plane("quiet")
    small.plane("busy").report(problems=("the disk is nearly full",))
    busy, quiet = small.call(declared.LIST_PLANES, declared.ListPlanes()).items
    assert (quiet.name, quiet.heard, quiet.url) == ("quiet", None, "")
    assert (busy.name, busy.url, busy.workers, busy.problems) == (
        "busy",
        "http://127.0.0.1:8500",
        2,
        ("the disk is nearly full",),
    )


# Tampering


def test_a_file_that_is_not_the_one_that_was_signed_is_not_given_out(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    revision = plane.state().endpoints[0].revisions[0].id
    platform.app.database.write(lambda work: work.execute(update(revision_files).values(digest="0" * 64)))
    with pytest.raises(Corrupt, match="not what was signed"):
        plane.fetch(revision, "model.onnx")


def test_the_signature_of_another_revision_is_none_for_this_one(small: Platform) -> None:
    small.deployed(2)
    plane = small.plane()
    first, second = plane.state().endpoints[0].revisions

    def swap(work: UnitOfWork) -> None:
        bundle = work.execute(revisions.select().where(revisions.c.id == first.id)).one().bundle
        work.execute(update(revisions).where(revisions.c.id == second.id).values(bundle=bundle))

    small.app.database.write(swap)
    assert plane.fetch(first.id, "model.onnx") == ONNX
    with pytest.raises(Corrupt, match="another one"):
        plane.fetch(second.id, "model.onnx")


def test_every_fetch_leaves_a_leaf_that_names_the_file(small: Platform) -> None:
    small.deployed()
    plane = small.plane()
    revision = plane.state().endpoints[0].revisions[0]
    plane.fetch(revision.id, "model.onnx")
    (leaf,) = small.leaves("plane.fetch")
    assert leaf.facts["digest"] == revision.files[0].digest
    assert leaf.facts["revision"] == revision.id


# When an older database was put back


def test_serials_go_on_rising_when_an_older_database_was_put_back(platform: Platform) -> None:
    platform.deployed()
    plane = platform.plane()
    held = plane.signed().serial
    platform.app.database.write(lambda work: work.execute(update(zones).values(serial=held - HOUR)))
    platform.clock.forward(SECOND)
    plane.report(serial=held)
    assert plane.signed(after=held).serial > held


def test_a_plane_that_claims_a_serial_of_the_future_moves_nothing(small: Platform) -> None:
    small.deployed()
    plane = small.plane()
    before = plane.signed().serial
    plane.report(serial=2**60)
    plane.report(serial=small.clock.now() + DAY)
    assert plane.signed().serial == before


# The plane of the home itself


def test_the_home_has_a_plane_of_its_own_that_keeps_its_token(small: Platform) -> None:
    join = small.app.plane_credentials()
    assert (join.name, join.zone, join.url) == ("local", "home", "http://127.0.0.1:8400")
    signed = small.call(declared.READ_STATE, ReadState(), join.token)
    assert verified(signed, join.trusted()).zone == "home"
    again = small.app.plane_credentials()
    assert again.token != join.token  # nobody wrote the first one down
    with pytest.raises(Unauthenticated):
        small.call(declared.READ_STATE, ReadState(), join.token)


def test_the_homes_plane_goes_on_with_the_token_it_has_until_that_is_near_its_end(small: Platform) -> None:
    join = small.app.plane_credentials()
    place = plane_of(small.app.home)
    place.prepare()
    write_join(place.join, join)
    assert small.app.plane_credentials() == join
    small.clock.forward(small.app.profile.token_life * 19 // 20)
    fresh = small.app.plane_credentials()
    assert fresh.token != join.token
    for token in (join.token, fresh.token):  # one that runs goes on until it has heard of the new one
        assert small.call(declared.READ_STATE, ReadState(), token).serial


def test_control_planes_that_share_a_database_have_a_plane_each(tmp_path: Path, postgres_url: str) -> None:
    first = Platform(tmp_path / "first", postgres_url)
    shutil.copytree(tmp_path / "first" / "home.keys", tmp_path / "second" / "home.keys")
    second = Platform(tmp_path / "second", postgres_url)
    try:
        joins = [first.app.plane_credentials(), second.app.plane_credentials()]
        assert joins[0].name != joins[1].name
        for join in joins:  # neither has shut the other out
            assert first.call(declared.READ_STATE, ReadState(), join.token).serial
    finally:
        second.close()
        first.close()


def test_a_member_who_leaves_takes_the_keys_they_made_with_them(platform: Platform) -> None:
    engineer = platform.person("eve", Role.ENGINEER)
    platform.deployed()
    key = platform.key(engineer).key.id
    plane = platform.plane()
    assert plane.state().revoked == ()
    before = plane.signed().serial
    platform.call(REMOVE_MEMBER, RemoveMember(project=PROJECT, member="eve", role=Role.ENGINEER))
    platform.step()
    after = plane.signed(after=before)
    assert after.serial > before
    assert verified(after, trusted(plane)).revoked == (key,)
