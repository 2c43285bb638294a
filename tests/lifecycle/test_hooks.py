"""Services that start pipelines by a signed call, at the address that they are given."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from falaj.base.clock import SECOND
from falaj.base.ids import new_id
from falaj.base.webhooks import signature
from falaj.governance.projects.operations import DELETE_PROJECT, RESTORE_PROJECT, OneProject
from falaj.lifecycle import triggers
from falaj.lifecycle.operations.triggers import Trigger, TriggerShown
from falaj.lifecycle.operations.words import Parameter, Step
from falaj.lifecycle.store import pipelines as pipeline_store
from tests.lifecycle.playing import PROJECT, Stage, keep, ref, result_of
from tests.lifecycle.test_triggers import look, runs, set_trigger, shown

COMMIT = "5f2c" * 10
PUSH = {"ref": "refs/heads/main", "after": COMMIT, "repository": {"name": "late"}}
WHAT = (Parameter(name="what", kind="any"),)


def github(body: bytes, hook: TriggerShown, _: Stage) -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + hmac.digest(hook.secret.encode(), body, hashlib.sha256).hex()}


def gitlab(_body: bytes, hook: TriggerShown, _: Stage) -> dict[str, str]:
    return {"x-gitlab-token": hook.secret}


def standard(body: bytes, hook: TriggerShown, stage: Stage) -> dict[str, str]:
    id, sent = new_id(stage.clock.now()), str(stage.clock.now() // SECOND)
    signed = f"v1a,of-another-kind {signature(hook.secret, id, sent, body)}"
    return {"webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signed}


Signing = Callable[[bytes, TriggerShown, Stage], dict[str, str]]


def knock(stage: Stage, hook: str, content: Any, headers: dict[str, str]) -> httpx.Response:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    application = stage.platform.application(hosts={"localhost"}, tls=False)

    async def post() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost") as client:
            return await client.post(f"/hooks/{hook}", content=body, headers=headers)

    return asyncio.run(post())


def signed(stage: Stage, hook: TriggerShown, content: Any, sign: Signing = github) -> httpx.Response:
    body = json.dumps(content).encode()
    return knock(stage, hook.hook, body, sign(body, hook, stage))


def called_with(stage: Stage, hook: TriggerShown, content: Any, sign: Signing = github) -> dict[str, Any]:
    answer = signed(stage, hook, content, sign)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("sign", [github, gitlab, standard])
def test_a_push_that_a_service_signs_starts_a_run_that_knows_the_commit(small: Stage, sign: Signing):
    small.apply(keep("which", ref("parameters.what")), parameters=WHAT)
    hook = set_trigger(small, Trigger(kind="push", about="main", parameters={"what": ref("trigger.commit")}))
    before = len(runs(small))
    assert called_with(small, hook, PUSH, sign)["starts"]
    look(small)
    run, *others = runs(small)
    assert len(others) == before
    assert (run.state, run.why) == ("done", f"by-itself: {COMMIT[:12]} was pushed to main")
    assert result_of(small.show(run.id), "which") == COMMIT
    assert not called_with(small, hook, PUSH, github)["starts"] or sign is standard  # there, the id tells what comes again
    look(small)
    assert len(runs(small)) == before + (2 if sign is standard else 1)


def test_on_either_database_a_webhook_hands_on_what_it_brought_and_a_storm_is_one_run_and_one_more(stage: Stage):
    stage.apply(keep("which", ref("parameters.what")), Step(name="ask", kind="approval", question="?"), parameters=WHAT)
    hook = set_trigger(stage, Trigger(kind="webhook", parameters={"what": ref("trigger.content.rows")}))
    for rows in range(5):
        called_with(stage, hook, {"rows": rows})
        look(stage)
    (first,) = runs(stage)
    assert result_of(stage.show(first.id), "which") == 0
    assert shown(stage).waiting
    stage.platform.lifecycle.trigger(stage.clock.now())
    assert len(runs(stage)) == 1
    answered = [leaf.facts["starts"] for leaf in stage.leaves("pipeline.call-hook")]
    assert answered == [True] * 5
    assert "rows" not in str(stage.leaves("pipeline.call-hook"))


def test_what_a_hook_was_called_with_is_read_when_a_run_starts_and_at_no_look(small: Stage, monkeypatch: pytest.MonkeyPatch):
    small.apply(keep("which", ref("parameters.what")), parameters=WHAT)
    hook, read = set_trigger(small, Trigger(kind="webhook", parameters={"what": ref("trigger.content.rows")})), list[str]()
    loads = json.loads
    called_with(small, hook, {"rows": 1, "notes": "told at length"})
    with monkeypatch.context() as patch:
        patch.setattr(triggers.json, "loads", lambda text: (read.append(text), loads(text))[1])
        for _ in range(5):
            small.platform.lifecycle.trigger(small.clock.now())
    assert ["told at length" in one for one in read].count(True) == 1
    assert result_of(small.until(runs(small)[0].id), "which") == 1
    rows = small.platform.database.read(pipeline_store.all_triggers)
    assert not any("told at length" in str(tuple(row)) for row in rows)


@pytest.mark.parametrize(
    "content",
    [
        {**PUSH, "ref": "refs/heads/other"},
        {**PUSH, "ref": "refs/tags/main"},
        {**PUSH, "after": "0" * 40},
        {**PUSH, "after": ["a"]},
        {"zen": "Keep it logically awesome."},
        [PUSH],
        "refs/heads/main",
    ],
    ids=["another-branch", "a-tag", "deleted", "no-commit", "a-ping", "a-list", "a-text"],
)
def test_what_is_no_push_to_the_branch_starts_nothing(small: Stage, content: Any):
    small.apply(keep("end", 1))
    hook = set_trigger(small, Trigger(kind="push", about="main"))
    before = len(runs(small))
    assert called_with(small, hook, content) == {"starts": False, "words": "That is no push to main, and starts nothing."}
    look(small)
    assert len(runs(small)) == before


def test_a_call_that_comes_again_starts_nothing_more(small: Stage):
    small.apply(keep("end", 1))
    hook = set_trigger(small, Trigger(kind="webhook"))
    before, body = len(runs(small)), b'{"rows": 1}'
    headers, other = standard(body, hook, small), standard(body, hook, small)
    for each, starts in ((headers, True), (headers, False), (other, True), (headers, False), (other, False)):
        assert knock(small, hook.hook, body, each).json()["starts"] is starts
        look(small)
    assert len(runs(small)) == before + 2
    for _ in range(2):  # two nights may be alike to the letter
        assert called_with(small, hook, {"rows": 1})["starts"]
        look(small)
    assert len(runs(small)) == before + 4


def test_what_cannot_be_started_is_said_once_and_does_not_come_up_again(small: Stage):
    small.apply(keep("end", ref("parameters.what")), parameters=(Parameter(name="what", kind="dataset"),))
    hook = set_trigger(small, Trigger(kind="webhook", parameters={"what": ref("trigger.content")}))
    before = len(runs(small))
    for odd in ("no-such@1", {"dataset": []}, "a\0b"):
        called_with(small, hook, odd)
        look(small)
        assert shown(small).words
        assert small.platform.lifecycle.trigger(small.clock.now()) is False
    assert len(runs(small)) == before


def test_nothing_is_heard_in_an_archived_project_and_of_what_is_no_hook(stage: Stage):
    stage.apply(keep("end", 1))
    hook = set_trigger(stage, Trigger(kind="webhook"))
    called_with(stage, hook, {})
    stage.call(DELETE_PROJECT, OneProject(project=PROJECT))
    assert signed(stage, hook, {}).status_code == 401
    stage.call(RESTORE_PROJECT, OneProject(project=PROJECT))
    called_with(stage, hook, {})
    set_trigger(stage, Trigger(kind="schedule", cron="0 6 * * *"))
    leaf = stage.leaves("pipeline.set-trigger")[-1]
    assert signed(stage, replace(hook, hook=leaf.facts["trigger"]), {}).status_code == 401


def test_who_cannot_sign_is_told_nothing_and_changes_nothing(small: Stage):
    small.apply(keep("end", 1))
    old = set_trigger(small, Trigger(kind="webhook"))
    hook = set_trigger(small, Trigger(kind="webhook"))  # the same once more: with another address, and another secret
    assert len({old.hook, hook.hook, old.secret, hook.secret}) == 4
    before, body = len(runs(small)), b'{"rows": 1}'
    late = standard(body, hook, small)
    small.clock.move(301)
    forged = [
        {},
        {"x-hub-signature-256": "sha256="},
        github(b"{}", hook, small),
        github(body, old, small),
        gitlab(body, old, small),
        {"x-gitlab-token": b"\xe9"},
        late,
        standard(body, hook, small) | {"webhook-id": "msg_2"},
        {"authorization": f"Bearer {small.owner}"},
    ]
    refused = [knock(small, hook.hook, body, headers) for headers in forged]
    refused += [knock(small, name, body, github(body, hook, small)) for name in (old.hook, new_id(small.clock.now()))]
    assert {answer.status_code for answer in refused} == {401}
    assert len({answer.json()["detail"] for answer in refused}) == 1
    look(small)
    assert len(runs(small)) == before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"payload=%7B%7D", "not JSON"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"rows": NaN}', "not JSON"),
        (b'{"rows": 1e999}', "not JSON"),
        (b'{"title": "\\ud800"}', "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b"[" * 300 + b"]" * 300, "nested"),
        (b'"' + b"a" * 300_000 + b'"', "256 KiB"),
    ],
    ids=["a-form", "bytes", "no-number", "infinite", "half-a-letter", "bottomless", "deep", "large"],
)
def test_what_cannot_be_kept_is_refused_in_words(small: Stage, body: bytes, says: str):
    small.apply(keep("end", 1))
    hook = set_trigger(small, Trigger(kind="webhook"))
    answer = knock(small, hook.hook, body, github(body, hook, small))
    assert (answer.status_code, says in answer.json()["detail"]) == (400, True), answer.text
    assert shown(small).last_run == hook.last_run


def test_only_a_name_of_a_hook_is_looked_up(small: Stage):
    assert knock(small, "nothing", {}, {}).status_code == 400


def test_whoever_reads_triggers_sees_the_address_and_never_the_secret(small: Stage):
    small.apply(keep("end", 1))
    hook = set_trigger(small, Trigger(kind="webhook"))
    seen = shown(small)
    assert (seen.hook, seen.secret) == (hook.hook, "")
    assert hook.secret.startswith("whsec_")
    assert hook.secret not in str(small.leaves("pipeline.set-trigger"))
