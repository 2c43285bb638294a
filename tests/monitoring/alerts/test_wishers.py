"""What is done later is done with no more right than whoever wished for it had, and never agreed to by themselves."""

import json

import pytest
from sqlalchemy import select

from falaj.base.errors import Conflict, Forbidden
from falaj.base.values import Nothing
from falaj.governance.identity import operations as identity
from falaj.governance.identity.store import tokens
from falaj.governance.roles import Role
from falaj.governance.sessions import operations as sessions
from falaj.jobs.operations import jobs
from falaj.monitoring.operations import monitors
from falaj.monitoring.operations.alerts import Action
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from tests.monitoring.alerts.platform import Watched, drift
from tests.monitoring.alerts.test_acting import act, all_jobs, answering, submitted
from tests.monitoring.alerts.test_alerts import decide
from tests.serving.control.conftest import Opener
from tests.serving.control.platform import PROJECT, Platform
from tests.serving.control.test_deploying import approve
from tests.serving.control.test_variants import Shelf

BACK = Act(do="roll-back", approval=True)
OVER = Act(do="fall-back", approval=True)


def apply(platform: Platform, token: str, *acts: Act, window: int = 60) -> None:
    wishes = Wishes(actions=acts, window=window)
    platform.call(monitors.APPLY_MONITOR, monitors.ApplyMonitor(project=PROJECT, endpoint="scores", wishes=wishes), token)


def narrow(platform: Platform, token: str, *scopes: str) -> str:
    return platform.call(identity.CREATE_TOKEN, identity.CreateToken(scopes=scopes), token).token


def waiting(watched: Watched, revision: int = 1) -> Action:
    watched.sees(drift(revision=revision))
    [action] = watched.alert().actions
    assert action.state == "waiting"
    return action


def test_what_is_not_wished_for_any_more_is_withdrawn_and_the_ledger_says_so(platform: Platform) -> None:
    emma, eli = platform.person("emma", Role.ENGINEER), platform.person("eli", Role.ENGINEER)
    watched = Watched(platform, revisions=2)
    apply(platform, emma, BACK, OVER)
    watched.sees(drift(revision=2))
    back, over = watched.alert().actions
    decide(watched, back.id, eli)
    apply(platform, eli, OVER, window=120)
    gone, kept = watched.alert().actions
    assert (gone.state, gone.words) == ("refused", "eli set the monitor anew, which does not wish for it any more.")
    assert (kept.id, kept.state) == (over.id, "waiting")
    assert platform.leaves("monitor.apply")[0].facts["withdrawn"] == [back.id]
    act(platform)
    assert answering(platform) == 2
    with pytest.raises(Conflict, match="it is refused"):
        decide(watched, back.id, eli)


def test_it_is_done_in_the_name_of_who_wished_for_it_whoever_set_the_monitor_since(small: Platform) -> None:
    emma, eli = small.person("emma", Role.ENGINEER), small.person("eli", Role.ENGINEER)
    watched = Watched(small)
    apply(small, emma, OVER)
    Shelf(small).put("int8", 2.0)
    action = waiting(watched)
    apply(small, eli, OVER, window=120)
    decide(watched, action.id, eli)
    act(small)
    assert watched.alert().actions[0].state == "done"
    [leaf] = [one for one in small.leaves("endpoint.deploy") if "alert" in one.facts]
    assert leaf.facts["set_by"] == small.call(identity.WHOAMI, Nothing(), emma).id


def test_what_was_wished_for_with_a_token_that_is_revoked_is_not_done(small: Platform) -> None:
    emma = small.person("emma", Role.ENGINEER)
    made = small.call(identity.CREATE_TOKEN, identity.CreateToken(scopes=("monitor.write", "endpoint.deploy")), emma)
    watched = Watched(small)
    Shelf(small).put("int8", 2.0)
    apply(small, made.token, Act(do="fall-back"))
    small.call(identity.REVOKE_TOKEN, identity.RevokeToken(token=made.id), emma)
    watched.sees(drift())
    act(small)
    [action] = watched.alert().actions
    assert action.state == "failed"
    assert action.words.startswith("The token that the monitor was set with was revoked")
    assert answering(small) == 1


def test_what_was_wished_for_by_somebody_who_signed_out_is_done(small: Platform) -> None:
    emma = small.person("emma", Role.ENGINEER)
    watched = Watched(small)
    Shelf(small).put("int8", 2.0)
    apply(small, emma, Act(do="fall-back"))
    small.call(sessions.CLOSE_SESSION, Nothing(), emma)
    watched.sees(drift())
    act(small)
    assert watched.alert().actions[0].state == "done"


def test_who_agrees_may_do_it_by_the_token_that_agrees(small: Platform) -> None:
    emma = small.person("emma", Role.ENGINEER)
    watched = Watched(small)
    apply(small, emma, OVER)
    action = waiting(watched)
    with pytest.raises(Forbidden):
        decide(watched, action.id, narrow(small, emma, "monitor.write", "read"))
    assert watched.alert().actions[0].state == "waiting"
    assert decide(watched, action.id, narrow(small, emma, "monitor.write", "endpoint.deploy")).actions[0].state == "ready"


def test_a_token_that_may_not_do_it_may_still_refuse_it(small: Platform) -> None:
    emma = small.person("emma", Role.ENGINEER)
    watched = Watched(small)
    apply(small, emma, OVER)
    action = waiting(watched)
    refused = decide(watched, action.id, narrow(small, emma, "monitor.write"), agree=False)
    assert refused.actions[0].state == "refused"


def test_a_job_that_an_alert_submits_may_do_no_more_than_the_token_that_wished_for_it(small: Platform) -> None:
    small.app.jobs.step()
    emma, job = small.person("emma", Role.ENGINEER), submitted(small)
    watched = Watched(small)
    scopes = ("monitor.write", "job.submit", "job.read")
    apply(small, narrow(small, emma, *scopes), Act(do="retrain", job=job))
    watched.sees(drift())
    act(small)
    [action] = watched.alert().actions
    assert action.state == "done", action.words
    assert len(all_jobs(small)) == 2
    maker = select(tokens.c.scopes).where(tokens.c.label == "jobs on behalf")
    [told] = small.app.database.read(lambda work: list(work.execute(maker).scalars()))
    assert set(json.loads(told)) == set(scopes)
    for one in all_jobs(small):
        if one.id != job:
            small.call(jobs.CANCEL_JOB, jobs.Cancel(project=PROJECT, job=one.id))
    small.app.jobs.step()


def test_nobody_agrees_to_their_own_wish_by_having_another_touch_the_monitor_or_by_a_token_they_made(opener: Opener) -> None:
    platform = opener("regulated")
    platform.register()
    approve(platform, 1, platform.person("val", Role.VALIDATOR))
    platform.deploy()
    emma, eli, eve = (platform.person(name, Role.ENGINEER) for name in ("emma", "eli", "eve"))
    mona = platform.person("mona", Role.ENGINEER, Role.ADMIN)
    watched = Watched(platform, revisions=0)
    apply(platform, emma, BACK)
    action = waiting(watched)
    apply(platform, eli, BACK, window=120)
    for token in (emma, eli):
        with pytest.raises(Forbidden) as refused:
            decide(watched, action.id, token)
        assert refused.value.rule == "approval.self"
    create = identity.CreateService(project=PROJECT, name="pipeline", role=Role.ENGINEER)
    platform.call(identity.CREATE_SERVICE, create, mona)
    made = identity.CreateServiceToken(project=PROJECT, service="pipeline")
    apply(platform, platform.call(identity.CREATE_SERVICE_TOKEN, made, mona).token, BACK)
    with pytest.raises(Forbidden) as refused:
        decide(watched, action.id, mona)
    assert refused.value.rule == "approval.self"
    assert decide(watched, action.id, eve).actions[0].state == "ready"
