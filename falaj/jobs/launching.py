"""Making attempts ready to be started: the token each carries, its secrets, its source, and what its engine is told."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from falaj.base.caller import Identity
from falaj.base.clock import DAY, HOUR, SECOND, Moment
from falaj.base.errors import NotFound
from falaj.base.ids import PrincipalId, TokenId, new_id
from falaj.base.operation import Permission
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import project_facts, token_hash
from falaj.governance.identity.minting import covers, new_secret
from falaj.governance.projects.store import Project, project_by_id
from falaj.jobs.engines.engine import Environment, Launch, Limits
from falaj.jobs.present import LiveAttempt
from falaj.jobs.store import jobs, sources, tokens
from falaj.jobs.store.tables import Found
from falaj.jobs.turns import Turn
from falaj.storage.service import BlobService, Reader

SLACK: Final = HOUR  # a token outlives the timeout by this: stopping and the last words take time
LONGEST_LIFE: Final = 366 * DAY  # of a job without a timeout


class Secrets(Protocol):
    def opened(self, work: UnitOfWork, project: str, names: Sequence[str]) -> dict[str, str]:
        """Raises `NotFound` where one was deleted since it was asked for."""
        ...

    def checkpoint_key(self, database: Database, project: str, job: str, now: Moment) -> str:
        """The same for each try of a job, and for what repeats it."""
        ...


@value
class Rights:
    """What tokens of jobs may do where the job does not say: `scopes`. `permissions` are all there are, by name. `may_submit`
    says whether somebody may, now, submit to the project of that name."""

    scopes: frozenset[str]
    permissions: Mapping[str, Permission]
    may_submit: Callable[[UnitOfWork, Identity, str], bool]


@value
class Looked:
    """What was read of the jobs that are to start, before the transaction that plans them."""

    rows: Mapping[str, Found]
    projects: Mapping[str, Project]


@value
class Grant:
    """What a job's token may do, as it is stored; or the words that say why there is none."""

    scopes: str = ""
    projects: str = ""
    reach: int | None = None
    refusal: str = ""


@value
class Equipped:
    """An attempt that is planned and has its token; or the words that say why it may not start."""

    attempt: LiveAttempt
    row: Found
    project: Project | None
    spec: Mapping[str, Any]
    secret: str
    refusal: str = ""


class Launcher:
    """Thread-safe. Secrets and tokens are remembered nowhere."""

    def __init__(
        self,
        database: Database,
        *,
        blobs: BlobService,
        secrets: Secrets,
        rights: Rights,
        platform_url: str = "",
        private_network: bool = False,
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._secrets = secrets
        self._rights = rights
        self._platform_url = platform_url
        self._private_network = private_network

    def look(self, attempts: Sequence[LiveAttempt]) -> Looked:
        def read(work: UnitOfWork) -> Looked:
            rows = jobs.to_start(work, [attempt.job.id for attempt in attempts])
            found = {id: project_by_id(work, id) for id in {row.project for row in rows.values()}}
            return Looked(rows=rows, projects={id: project for id, project in found.items() if project is not None})

        return self._database.read(read)

    def equip(self, work: UnitOfWork, attempts: Sequence[LiveAttempt], looked: Looked, turn: Turn) -> list[Equipped]:
        """Give each its token, in the transaction that plans it; run again, it starts over."""
        makers = tokens.makers(work, {row.token for row in looked.rows.values()})
        grants: dict[tuple[Any, ...], Grant] = {}
        equipped, turn.minted = [], []
        for attempt, planned in zip(attempts, turn.planned, strict=True):
            row = looked.rows[attempt.job.id]
            spec: dict[str, Any] = msgspec.json.decode(row.spec)
            project = looked.projects.get(row.project)
            asked = (row.project, row.zone, row.token, *(spec.get("permissions") or ()))
            if (grant := grants.get(asked)) is None:
                grant = grants[asked] = self._grant(work, row, project, makers.get(row.token), spec, turn.now)
            secret = new_secret()
            equipped.append(
                Equipped(attempt=attempt, row=row, project=project, spec=spec, secret=secret, refusal=grant.refusal)
            )
            if not grant.refusal:
                token = self._token_row(attempt, row, grant, secret, turn.now)
                turn.minted.append(token)
                planned["token"] = attempt.token = token["id"]
        return equipped

    def _grant(
        self,
        work: UnitOfWork,
        row: Found,
        project: Project | None,
        maker: Found | None,
        spec: Mapping[str, Any],
        now: Moment,
    ) -> Grant:
        """What whoever submitted it may still have started for it, and why not where that is nothing."""
        if project is None or project.archived:
            return Grant(refusal="Its project is archived or gone.")
        if row.zone not in {zone.name for zone in project.zones}:
            return Grant(refusal=f"Its project may not use the zone {row.zone!r} any more.")
        if maker is None or maker.disabled or maker.revoked is not None:
            return Grant(refusal="Whoever submitted it is shut out, or the token it was submitted with was revoked.")
        if maker.reach is not None and maker.reach <= now:
            return Grant(refusal=f"The token it was submitted with reached until {Moment(maker.reach)}; submit it again.")
        reached = json.loads(maker.projects)
        if reached and project.name not in reached:
            return Grant(refusal="The token it was submitted with does not reach its project.")
        if not self._rights.may_submit(work, _submitter(maker, row.zone), project.name):
            return Grant(refusal="Whoever submitted it may not submit jobs to its project any more.")
        if not (scopes := self._scopes(maker, spec)):
            return Grant(refusal="The token it was submitted with has none of the permissions that the job asks for.")
        return Grant(scopes=tokens.listed(scopes), projects=tokens.listed([project.name]), reach=maker.reach)

    def _scopes(self, maker: Found, spec: Mapping[str, Any]) -> frozenset[str]:
        """What both the job and the token it was submitted with have; of a group and a permission in it, the permission."""
        wished = frozenset(spec.get("permissions") or self._rights.scopes)
        held, known = frozenset(json.loads(maker.scopes)), self._rights.permissions
        if not held:
            return wished
        common = [scope for scope in wished if covers(held, scope, known)]
        common += [scope for scope in held if covers(wished, scope, known)]
        return frozenset(common)

    def _token_row(self, attempt: LiveAttempt, row: Found, grant: Grant, secret: str, now: Moment) -> dict[str, Any]:
        order = attempt.job.order
        life = order.timeout + order.grace + SLACK if order.timeout else LONGEST_LIFE
        expires = now + life if grant.reach is None else min(now + life, grant.reach)
        return {
            "id": new_id(now),
            "hash": token_hash(secret),
            "principal": row.submitted_by,
            "label": f"job {row.id}",
            "scopes": grant.scopes,
            "projects": grant.projects,
            "zone": row.zone,
            "expires": int(expires),
            "parent": row.token,
        }

    def equip_again(self, work: UnitOfWork, attempt: LiveAttempt, looked: Looked) -> Equipped | None:
        """One that another control plane planned: its token gets a secret that is known here. None where it counts for nothing
        any more."""
        row, secret = looked.rows[attempt.job.id], new_secret()
        if not tokens.rekey(work, attempt.token, token_hash(secret)):
            return None
        project = looked.projects.get(row.project)
        return Equipped(attempt=attempt, row=row, project=project, spec=msgspec.json.decode(row.spec), secret=secret)

    # After the transaction

    def launch(self, one: Equipped, now: Moment) -> Launch:
        """Everything its engine needs. Raises `NotFound` where a secret is gone, and what the key ring raises."""
        spec, row, attempt, project = one.spec, one.row, one.attempt, one.project
        if project is None:
            raise NotFound("The project is not there any more.")
        return Launch(
            attempt=attempt.id,
            job=row.id,
            project=row.project,
            name=row.name,
            command=tuple(spec["command"]),
            shape=attempt.job.order.shape,
            seats=attempt.seats,
            environment=Environment(lock=spec.get("lock", ""), image=spec.get("image", "")),
            limits=Limits(
                seconds=attempt.job.order.timeout // SECOND, disk_mib=spec.get("disk_mib", Limits(seconds=0).disk_mib)
            ),
            variables=self._variables(one, row, project, now),
            hosts=tuple(spec.get("hosts", ())),
            platform_url=self._platform_url,
            source=self._source(row, project, attempt.token, spec["source"], now) if spec.get("source") else None,
            private_network=self._private_network,
            zone=row.zone,
            queue=attempt.job.queue,
            priority=spec.get("priority", ""),
            grace=attempt.job.order.grace,
            outputs=tuple(spec.get("outputs", ())),
            checkpoints=(row.id, *spec.get("continues", ())) if spec.get("checkpoints") else (),
        )

    def _variables(self, one: Equipped, row: Found, project: Project, now: Moment) -> dict[str, str]:
        """What the platform gives comes last: nothing a job asks for takes its place. Where the platform is, engines say."""
        attempt, names = one.attempt, one.spec.get("secrets") or ()
        given = {setting["name"]: setting["value"] for setting in one.spec.get("variables", ())}
        if names:
            given |= self._database.read(lambda work: self._secrets.opened(work, row.project, names))
        given |= {
            "FALAJ_TOKEN": one.secret,
            "FALAJ_PROJECT": project.name,
            "FALAJ_JOB": row.id,
            "FALAJ_TRY": str(attempt.number),
            "MLFLOW_TRACKING_TOKEN": one.secret,
        }
        if row.run:
            given |= {"FALAJ_RUN": row.run, "MLFLOW_RUN_ID": row.run}
        if one.spec.get("checkpoints"):
            first = [row.id, *one.spec.get("continues", ())][-1]
            given["FALAJ_CHECKPOINT_KEY"] = self._secrets.checkpoint_key(self._database, row.project, first, now)
        return given

    def _source(self, row: Found, project: Project, token: str, digest: str, now: Moment) -> Callable[[], Iterator[bytes]]:
        # The job reads its own files: in its zone, as whoever submitted it.
        identity = Identity(
            principal=PrincipalId(row.submitted_by), kind="process", name=row.name, token=TokenId(token), zone=row.zone
        )

        def open_source(work: UnitOfWork) -> Reader:
            found = sources.find(work, project.id, digest)
            if found is None:
                raise NotFound(f"The source {digest[:12]} of the job is not there any more.")
            context = Context(work=work, identity=identity, project=project_facts(project), now=now, request_id="", facts={})
            return self._blobs.open(context, found.blob)

        return lambda: self._database.read(open_source).read()


def _submitter(maker: Found, zone: str) -> Identity:
    return Identity(
        principal=PrincipalId(maker.principal),
        kind=maker.kind,
        name=maker.name,
        token=TokenId(maker.id),
        zone=zone,
        scopes=frozenset(json.loads(maker.scopes)),
        projects=frozenset(json.loads(maker.projects)),
    )
