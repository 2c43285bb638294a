"""What an attempt is started with: a token that may do no more than it should for no longer than it must, secrets, files."""

import hashlib
import json
from dataclasses import replace

import pytest
from sqlalchemy import update

from falaj.base.clock import HOUR, SECOND, Moment
from falaj.base.ids import PrincipalId, TokenId
from falaj.database.work import Context, UnitOfWork
from falaj.governance.gate import ANONYMOUS, project_facts, token_hash
from falaj.governance.identity.minting import Bounds, mint
from falaj.governance.identity.store import revoke_token, set_disabled, tokens
from falaj.governance.projects.store import project_named, set_archived, set_zones
from falaj.jobs.makers import maker_for
from falaj.jobs.operations.jobs import Setting
from falaj.jobs.operations.secrets import SetSecret
from falaj.jobs.store import sources
from falaj.jobs.store.tables import Found
from falaj.storage.service import Owner
from tests.jobs.cluster import START, Cluster, run, settle


def token_of(cluster: Cluster, job: str) -> Found:
    attempt = cluster.tries(job)[-1]
    (found,) = [row for row in cluster.rows(tokens) if row.id == attempt.token]
    return found


def context_in(cluster: Cluster, work: UnitOfWork) -> Context:
    project = project_named(work, "default")
    assert project is not None
    identity = replace(ANONYMOUS, principal=PrincipalId(cluster.user))
    return Context(work=work, identity=identity, project=project_facts(project), now=START, request_id="", facts={})


def test_each_attempt_has_a_token_of_its_own_that_ends_with_it(cluster: Cluster):
    controller = cluster.controller()
    job = cluster.submit("1", "failed", retries=1, timeout=600)
    settle(controller)
    first = token_of(cluster, job)
    assert (first.principal, first.kind, first.zone, first.parent) == (cluster.user, "job", "home", cluster.token)
    assert (json.loads(first.scopes), json.loads(first.projects)) == (["read", "write"], ["default"])
    assert START + 600 * SECOND < first.expires <= START + 600 * SECOND + 2 * HOUR
    assert first.revoked is None
    secret = cluster.timers.launches[cluster.tries(job)[0].id].variables["FALAJ_TOKEN"]
    assert token_hash(secret) == first.hash
    run(cluster, controller, 12)
    second = token_of(cluster, job)
    assert second.id != first.id
    revoked = {row.id: row.revoked for row in cluster.rows(tokens)}
    assert revoked[first.id] == START + SECOND
    run(cluster, controller, 5)
    assert token_of(cluster, job).revoked is not None


def test_whatever_was_made_with_an_attempt_s_token_ends_with_it(cluster: Cluster):
    controller = cluster.controller()
    ended, beside = cluster.submit("1"), cluster.submit("100")
    settle(controller)
    first, other = token_of(cluster, ended), token_of(cluster, beside)

    def make(work: UnitOfWork, kind: str, parent: str) -> str:
        bounds = Bounds(scopes=frozenset(), projects=frozenset(), zone="", expires=Moment(START + HOUR), reach=None)
        return mint(work, principal=cluster.user, kind=kind, label="t", bounds=bounds, parent=parent, now=START).id

    child = cluster.database.write(lambda work: make(work, "api", first.id))
    session = cluster.database.write(lambda work: make(work, "session", child))
    spared = cluster.database.write(lambda work: make(work, "api", other.id))
    run(cluster, controller, 2)
    revoked = {row.id for row in cluster.rows(tokens) if row.revoked is not None}
    assert revoked == {first.id, child, session}
    assert {other.id, spared, cluster.token}.isdisjoint(revoked)


@pytest.mark.parametrize(
    ("held", "wished", "given"),
    [
        ((), (), ["read", "write"]),
        (("read",), (), ["read"]),
        (("run.create", "read"), (), ["read", "run.create"]),
        (("read", "write"), ("run.read",), ["run.read"]),
        (("run.read",), ("run.read", "run.create"), ["run.read"]),
    ],
)
def test_a_job_s_token_is_never_wider_than_the_one_it_was_submitted_with(
    small: Cluster, held: tuple[str, ...], wished: tuple[str, ...], given: list[str]
):
    maker = small.database.write(lambda work: small.new_token(work, small.user, scopes=frozenset(held)))
    job = small.submit("1", token=maker, permissions=wished)
    settle(small.controller())
    assert json.loads(token_of(small, job).scopes) == given


def test_a_job_s_token_lives_no_longer_than_its_maker_may_give(small: Cluster):
    reach = Moment(START + HOUR)
    maker = small.database.write(lambda work: small.new_token(work, small.user, reach=reach))
    job = small.submit("1", token=maker)
    settle(small.controller())
    assert token_of(small, job).expires == reach


REFUSED = {
    "revoked": lambda cluster, work, maker: revoke_token(work, maker, now=START, descendants=False),
    "shut out": lambda cluster, work, maker: set_disabled(work, cluster.user, True),
    "expired": lambda cluster, work, maker: work.execute(update(tokens).where(tokens.c.id == maker).values(reach=START - 1)),
    "elsewhere": lambda cluster, work, maker: work.execute(
        update(tokens).where(tokens.c.id == maker).values(projects='["other"]')
    ),
    "powerless": lambda cluster, work, maker: work.execute(
        update(tokens).where(tokens.c.id == maker).values(scopes='["approve"]')
    ),
    "archived": lambda cluster, work, maker: set_archived(work, cluster.project, True),
    "no zone": lambda cluster, work, maker: set_zones(work, cluster.project, ("away",)),
}


@pytest.mark.parametrize("why", REFUSED)
def test_nothing_is_started_for_somebody_who_may_not_start_it_any_more(small: Cluster, why: str):
    controller = small.controller()
    settle(controller)  # it has just looked who is shut out: what would start meanwhile is refused on its own
    maker = small.database.write(lambda work: small.new_token(work, small.user))
    job = small.submit("1", token=maker, retries=5)
    small.database.write(lambda work: REFUSED[why](small, work, maker))
    settle(controller)
    over = small.job(job)
    assert (over.state, over.cause, small.timers.starts) == ("failed", "refused", [])
    assert over.words == small.words(job)[-1] != ""
    assert [row for row in small.rows(tokens) if row.kind == "job"] == []


def test_who_signs_out_does_not_end_what_waits_and_who_revokes_everything_does(cluster: Cluster):
    def session(work: UnitOfWork) -> str:
        bounds = Bounds(
            scopes=frozenset({"read"}),
            projects=frozenset(),
            zone="",
            expires=Moment(START + HOUR),
            reach=Moment(START + 9 * HOUR),
        )
        return mint(work, principal=cluster.user, kind="session", label="", bounds=bounds, parent=None, now=START).id

    signed_in = cluster.database.write(session)

    def maker(work: UnitOfWork) -> str | None:
        context = context_in(cluster, work)
        return maker_for(replace(context, identity=replace(context.identity, token=TokenId(signed_in))))

    made = cluster.database.write(maker)
    assert made not in (None, signed_in)
    assert cluster.database.write(maker) == made
    first, second = (cluster.submit("1", token=str(made)) for _ in range(2))
    cluster.database.write(lambda work: revoke_token(work, signed_in, now=START, descendants=False))
    controller = cluster.controller()
    settle(controller)
    assert cluster.job(first).state == "starting"
    assert json.loads(token_of(cluster, second).scopes) == ["read"]
    assert token_of(cluster, second).expires == START + 9 * HOUR
    third = cluster.submit("1", token=str(made))
    cluster.database.write(lambda work: revoke_token(work, signed_in, now=START, descendants=True))
    assert token_of(cluster, second).revoked == START
    settle(controller)
    assert cluster.job(third).cause == "refused"


def test_an_api_token_is_the_maker_itself(small: Cluster):
    def maker(work: UnitOfWork) -> str | None:
        context = context_in(small, work)
        return maker_for(replace(context, identity=replace(context.identity, token=TokenId(small.token))))

    assert small.database.write(maker) == small.token


def test_a_job_sees_its_variables_and_secrets_and_what_the_platform_gives_comes_last(cluster: Cluster):
    cluster.database.write(
        lambda work: cluster.secrets.set(
            context_in(cluster, work), SetSecret(project="default", name="API_KEY", value="s3cret é")
        )
    )
    chosen = (Setting(name="LR", value="0.1"), Setting(name="FALAJ_TOKEN", value="mine"))
    job = cluster.submit("1", secrets=("API_KEY",), variables=chosen, hosts=("example.org:443",), lock="numpy==2.0")
    settle(cluster.controller())
    launch = cluster.timers.launches[cluster.tries(job)[0].id]
    told = dict(launch.variables)
    assert (told["LR"], told["API_KEY"], told["FALAJ_JOB"]) == ("0.1", "s3cret é", job)
    assert told["FALAJ_TOKEN"].startswith("falaj_")
    assert told["FALAJ_TOKEN"] == told["MLFLOW_TRACKING_TOKEN"]
    assert (launch.hosts, launch.environment.lock, launch.platform_url) == (
        ("example.org:443",),
        "numpy==2.0",
        "http://platform",
    )
    assert launch.limits.seconds == 86_400
    assert "s3cret" not in str([tuple(row) for row in cluster.rows(tokens)])


def test_a_secret_that_is_gone_fails_the_attempt_and_says_which(cluster: Cluster):
    job = cluster.submit("1", secrets=("GONE",), retries=0)
    controller = cluster.controller()
    settle(controller)
    assert (cluster.job(job).state, cluster.job(job).cause) == ("failed", "environment")
    assert "'GONE'" in cluster.words(job)[-1]
    assert cluster.timers.starts == []


def put_source(cluster: Cluster, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()

    def facts(work: UnitOfWork):
        return context_in(cluster, work).required_project

    received = cluster.blobs.receive(cluster.database.read(facts), "home", iter((content,)))

    def keep(work: UnitOfWork) -> None:
        blob = cluster.blobs.keep(context_in(cluster, work), received, Owner(kind="job-source", id=digest))
        row = {"project": cluster.project, "digest": digest, "blob": blob.id, "size": 1, "files": 1, "created": int(START)}
        sources.add(work, row)

    cluster.database.write(keep)
    return digest


def test_a_job_gets_the_files_it_was_submitted_with(cluster: Cluster):
    digest = put_source(cluster, b"a tar" * 1000)
    job = cluster.submit("1", source=digest)
    settle(cluster.controller())
    launch = cluster.timers.launches[cluster.tries(job)[0].id]
    assert launch.source is not None
    assert b"".join(launch.source()) == b"a tar" * 1000


def test_a_source_that_is_not_there_fails_the_attempt(small: Cluster):
    controller = small.controller()
    job = small.submit("1", source="0" * 64, retries=0)
    settle(controller)
    assert (small.job(job).state, small.job(job).cause) == ("failed", "environment")
