"""Channels: checked when they are set, sealed, shown without their secrets, and not deleted under a monitor."""

import json

import pytest

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.governance.roles import Role
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.monitors import Wishes
from falaj.operations.dispatcher import Call
from falaj.storage.operations import BLOB_GET, BLOB_LIST, GetBlob, ListBlobs
from tests.monitoring.alerts.platform import Watched
from tests.serving.control.platform import PROJECT, Platform

HOOK = "https://hooks.example.com/falaj/token-of-ours"
SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/"


def put(
    platform: Platform, url: str = HOOK, name: str = "team", token: str = "", project: str = PROJECT
) -> declared.NewChannel:
    kind = "webhook" if url.startswith("http") else "apprise"
    request = declared.SetChannel(project=project, channel=name, kind=kind, url=url)  # type: ignore[arg-type]
    return platform.call(declared.SET_CHANNEL, request, token)


def names(platform: Platform, token: str = "", project: str = PROJECT) -> list[str]:
    found = platform.call(declared.LIST_CHANNELS, declared.ListChannels(project=project), token)
    return [one.name for one in found.items]


def delete(platform: Platform, name: str = "team", token: str = "", project: str = PROJECT) -> None:
    platform.call(declared.DELETE_CHANNEL, declared.OneChannel(project=project, channel=name), token)


def test_a_webhooks_secret_is_shown_once_and_its_address_never_again(platform: Platform) -> None:
    made = put(platform)
    assert made.secret.startswith("whsec_")
    assert made.channel.shown == "https://hooks.example.com/***"
    found = platform.call(declared.LIST_CHANNELS, declared.ListChannels(project=PROJECT))
    assert found.items == (made.channel,)
    [leaf] = platform.leaves("channel.set")
    assert "token-of-ours" not in json.dumps([leaf.request, leaf.facts])
    assert made.secret not in json.dumps([leaf.request, leaf.facts])


def test_setting_it_again_makes_another_secret_and_forgets_what_was_sealed_before(platform: Platform) -> None:
    first, second = put(platform), put(platform, SLACK)
    assert (second.channel.kind, second.channel.shown, second.secret) == ("apprise", "slack://***", "")
    third = put(platform)
    assert third.secret not in ("", first.secret)
    assert len(platform.call(BLOB_LIST, ListBlobs(project=PROJECT)).items) == 1


def test_whoever_reads_the_projects_blobs_reads_no_address(small: Platform) -> None:
    put(small)
    [blob] = small.call(BLOB_LIST, ListBlobs(project=PROJECT)).items
    with pytest.raises(NotFound, match="Nobody stored the blob"):
        small.call(BLOB_GET, GetBlob(project=PROJECT, blob=blob.id))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1/hook", "lies inside a network"),
        ("https://10.1.2.3/hook", "lies inside a network"),
        ("https://[::1]/hook", "lies inside a network"),
        ("https://localhost:9999/hook", "localhost lies inside a network. .*`monitoring.private_receivers` in falaj.toml"),
        ("https://hooks.LOCALHOST/", "lies inside a network"),
        ("http://127.0.0.1:9999/hook", "Webhooks go over https; .*`monitoring.private_receivers` in falaj.toml"),
        ("https://169.254.169.254/latest", "lies inside a network"),
        ("http://hooks.example.com/", "Webhooks go over https"),
        ("slack://nothing", "apprise cannot read"),
        ("json://hooks.example.com/", "alerts are not sent by json"),
    ],
)
def test_what_leads_inside_or_cannot_be_read_is_refused_and_nothing_is_kept(small: Platform, url: str, words: str) -> None:
    with pytest.raises(Invalid, match=words):
        put(small, url)
    assert names(small) == []
    assert small.call(BLOB_LIST, ListBlobs(project=PROJECT)).items == ()


def test_where_clouds_hand_out_credentials_nothing_goes_even_if_the_operator_allows_receivers_inside(
    small_near: Platform,
) -> None:
    with pytest.raises(Invalid, match="lies inside a network"):
        put(small_near, "https://169.254.169.254/latest")


def test_a_channel_that_a_monitor_uses_is_not_deleted(platform: Platform) -> None:
    put(platform)
    watched = Watched(platform, Wishes(escalate_to=("team",)))
    with pytest.raises(Conflict, match="The monitor of 'scores' sends to 'team'"):
        delete(platform)
    watched.wish(Wishes())
    delete(platform)
    assert names(platform) == []
    assert "application/json" not in {one.media_type for one in platform.call(BLOB_LIST, ListBlobs(project=PROJECT)).items}
    with pytest.raises(NotFound, match="There is no channel 'team' here"):
        delete(platform)


def test_others_neither_see_nor_change_a_projects_channels(small: Platform) -> None:
    put(small)
    small.project("theirs")
    eve, viewer = small.person("eve", Role.ADMIN, project="theirs"), small.person("vera", Role.VIEWER)
    assert names(small, eve, "theirs") == []
    with pytest.raises(NotFound):
        delete(small, token=eve, project="theirs")
    with pytest.raises(NotFound):
        delete(small, token=eve)
    put(small, SLACK, token=eve, project="theirs")
    assert [one.kind for one in small.call(declared.LIST_CHANNELS, declared.ListChannels(project=PROJECT)).items] == ["webhook"]
    assert names(small, viewer) == ["team"]
    with pytest.raises(Forbidden):
        put(small, token=viewer)


def test_a_repeated_request_shows_no_secret_twice(small: Platform) -> None:
    request = declared.SetChannel(project=PROJECT, channel="team", kind="webhook", url=HOOK)

    def ask() -> declared.NewChannel:
        call = Call(credentials=small.owner, request_id=new_id(small.clock.now()), idempotency_key="once")
        return small.app.dispatcher.call(declared.SET_CHANNEL, request, call)

    assert ask().secret
    with pytest.raises(Conflict, match="held a secret"):
        ask()
