"""What leaves for other hosts is one endpoint alone, as it was signed; each endpoint has a secret for its callbacks."""

from dataclasses import replace

import pytest

from falaj.base.clock import DAY
from falaj.base.errors import Conflict, Corrupt, Forbidden, NotFound, Unauthenticated
from falaj.governance.roles import Role
from falaj.keys.operations import KEY_ROTATE_SIGNING, RotateSigning
from falaj.serving.operations import endpoints as declared
from falaj.serving.operations import exports as exported
from falaj.serving.operations import keys, planes
from falaj.serving.plane.following import Follower
from falaj.serving.plane.keeping import StateFile, verified
from falaj.serving.plane.models import SealedModels
from falaj.serving.states import State
from falaj.serving.store import endpoints as store
from tests.serving.control.platform import ONNX, PROJECT, Platform, said


def bundle_of(platform: Platform, name: str = "scores", revision: int = 0, token: str = "") -> exported.Bundle:
    return platform.call(exported.READ_BUNDLE, exported.ReadBundle(project=PROJECT, endpoint=name, revision=revision), token)


def state_of(bundle: exported.Bundle) -> State:
    return verified(bundle.state, {key.id: bytes.fromhex(key.public) for key in bundle.keys})


def file_of(platform: Platform, revision: int, file: str = "model.onnx", name: str = "scores", token: str = "") -> bytes:
    request = exported.ReadRevisionFile(project=PROJECT, endpoint=name, revision=revision, file=file)
    return b"".join(platform.call(exported.READ_REVISION_FILE, request, token).chunks)


def secret_of(platform: Platform, name: str = "scores", token: str = "") -> str:
    request = declared.OneEndpoint(project=PROJECT, endpoint=name)
    return platform.call(exported.READ_CALLBACK_SECRET, request, token).secret


def configure(platform: Platform, name: str = "scores", **options: object) -> None:
    chosen = replace(declared.Options(), **options)
    platform.call(declared.CONFIGURE, declared.Configure(project=PROJECT, endpoint=name, options=chosen))


# Bundles and files


def test_a_bundle_holds_one_revision_of_one_endpoint_and_leads_to_nobody(platform: Platform) -> None:
    platform.deployed(2)
    platform.deployed(1, "others")
    configure(platform, callbacks=("hooks.example.com",), log_share=100, latency_ms=20)
    platform.project("elsewhere")
    mine, theirs = platform.key().key.id, platform.key(project="elsewhere").key.id
    for project, key in ((PROJECT, mine), ("elsewhere", theirs)):
        platform.call(keys.REVOKE_KEY, keys.RevokeKey(project=project, key=key))
    state = state_of(bundle_of(platform))
    (endpoint,) = state.endpoints
    assert (endpoint.name, endpoint.latency_ms, endpoint.fallback) == ("scores", 20, 0)
    assert [(arm.revision, arm.share) for arm in endpoint.arms] == [(2, 10_000)]
    assert [revision.number for revision in endpoint.revisions] == [2]
    assert (endpoint.callbacks, endpoint.callback_secret, endpoint.log_share) == ((), "", 0)
    assert state.token_keys
    assert state.revoked == (mine,)  # no word of other projects
    assert [revision.number for revision in state_of(bundle_of(platform, revision=1)).endpoints[0].revisions] == [1]
    (leaf, *_) = platform.leaves("endpoint.bundle")
    assert leaf.operation == "endpoint.bundle"


def test_no_plane_takes_a_bundle_for_its_own_state(small: Platform, tmp_path) -> None:
    small.deployed(1)
    plane, bundle = small.plane(), bundle_of(small)

    class Liar:
        def state(self, after: int) -> planes.SignedState:
            return bundle.state

    trusted = {key.id: bytes.fromhex(key.public) for key in plane.made.keys}
    kept = StateFile(tmp_path / "state.sealed", trusted, bytes(32))
    follower = Follower(Liar(), kept, SealedModels(tmp_path, bytes(32)), trusted, lambda: "home")
    with pytest.raises(Corrupt, match="edge:"):
        follower.step()


def test_files_leave_as_they_were_signed_and_no_others(small: Platform) -> None:
    small.deployed(1)
    assert file_of(small, 1) == ONNX
    (leaf,) = small.leaves("endpoint.file")
    assert leaf.operation == "endpoint.file"
    with pytest.raises(NotFound, match="no file"):
        file_of(small, 1, "../secrets")
    with pytest.raises(NotFound, match="no revision 9"):
        file_of(small, 9)
    with pytest.raises(NotFound, match="no endpoint"):
        file_of(small, 1, name="nobody")


def test_a_quarantined_revision_does_not_leave(small: Platform) -> None:
    endpoint = small.deployed(1)
    small.app.database.write(lambda work: store.quarantine(work, endpoint.id, 1, "it broke workers"))
    with pytest.raises(Conflict, match="quarantine"):
        bundle_of(small)
    with pytest.raises(Conflict, match="quarantine"):
        file_of(small, 1)


def test_only_who_may_deploy_takes_models_and_secrets_away(small: Platform) -> None:
    small.deployed(1)
    reader = small.person("ria", Role.SCIENTIST)
    for attempt in (lambda: bundle_of(small, token=reader), lambda: file_of(small, 1, token=reader)):
        with pytest.raises(Forbidden):
            attempt()
    with pytest.raises(Forbidden):
        secret_of(small, token=reader)


# Secrets of callbacks


def test_each_endpoint_has_a_secret_of_its_own_that_its_planes_know_once_it_has_callbacks(platform: Platform) -> None:
    plane = platform.plane()
    platform.deployed(1)
    platform.deployed(1, "others")
    assert secret_of(platform) == secret_of(platform)
    assert secret_of(platform) != secret_of(platform, "others")
    assert secret_of(platform).startswith("whsec_")
    assert [endpoint.callback_secret for endpoint in plane.state().endpoints] == ["", ""]
    configure(platform, callbacks=("hooks.example.com",))
    known = {endpoint.name: endpoint.callback_secret for endpoint in plane.state().endpoints}
    assert known == {"scores": secret_of(platform), "others": ""}


def test_rotating_the_key_gives_new_secrets_and_planes_hear_of_them(small: Platform) -> None:
    plane = small.plane()
    small.deployed(1)
    configure(small, callbacks=("hooks.example.com",))
    small.step()
    before, serial = secret_of(small), plane.signed().serial
    small.call(KEY_ROTATE_SIGNING, RotateSigning(purpose="callbacks"))
    small.clock.forward(DAY)
    small.step()
    assert secret_of(small) != before
    assert plane.signed().serial > serial
    assert plane.state().endpoints[0].callback_secret == secret_of(small)


# Several planes


def test_every_plane_that_answers_is_named_and_no_other(platform: Platform) -> None:
    endpoint = platform.deployed(1)
    first, second, third = platform.plane("first"), platform.plane("second"), platform.plane("third")
    first.report(said(endpoint, 1), url="http://a:1")
    second.report(said(endpoint, 1), url="http://b:1")
    third.report(said(endpoint, 1, ready=False), url="http://c:1")
    shown = platform.show()
    assert (shown.planes, shown.ready, shown.urls, shown.url) == (3, 2, ("http://a:1", "http://b:1"), "http://a:1")


def test_a_plane_renews_its_token_and_ends_the_old_one_when_it_has_the_new(platform: Platform) -> None:
    plane = platform.plane()
    platform.clock.forward(60 * DAY)
    made = platform.call(planes.RENEW_TOKEN, planes.RenewToken(), plane.token)
    assert made.expires - platform.clock.now() > 89 * DAY
    assert plane.signed()  # the answer might have been lost
    platform.call(planes.RETIRE_TOKENS, planes.RetireTokens(), made.token)
    with pytest.raises(Unauthenticated):
        plane.signed()
    plane.token = made.token
    platform.clock.forward(60 * DAY)
    assert plane.signed()


def test_nobody_else_renews_a_plane_and_one_that_was_shut_out_does_not_come_back(small: Platform) -> None:
    plane = small.plane()
    with pytest.raises(Forbidden):
        small.call(planes.RENEW_TOKEN, planes.RenewToken())
    with pytest.raises(Forbidden):
        small.call(planes.RETIRE_TOKENS, planes.RetireTokens())
    renewed = small.call(planes.RENEW_TOKEN, planes.RenewToken(), plane.token)
    small.call(planes.DELETE_PLANE, planes.OnePlane(plane="first"))
    for token in (plane.token, renewed.token):
        with pytest.raises(Unauthenticated):
            small.call(planes.RENEW_TOKEN, planes.RenewToken(), token)
