"""Doing what steps want: operations are called and jobs submitted in the name of whoever started the run.

Every call carries a key that is the same however often the platform is killed on the way: what was done once is not done again,
and answered as it was then.
"""

import json
import logging
from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

from pydantic import ValidationError

from falaj.base.clock import MINUTE, SECOND, Clock, Moment
from falaj.base.errors import FalajError, Invalid, TemporaryError, Unauthenticated
from falaj.base.failpoints import failpoint
from falaj.base.ids import ProjectId, TokenId, new_id
from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.identity.store import token_by_id
from falaj.governance.passes import Claims, Passes
from falaj.governance.projects.store import project_by_id
from falaj.jobs.operations.jobs import SUBMIT_JOB, Setting, Spec, Submit
from falaj.jobs.operations.words import Resources
from falaj.jobs.store.tables import Found as FoundJob
from falaj.lifecycle.calling_off import OF_JOBS, Afoot, CallingOff, calling_off, job_in, time_began
from falaj.lifecycle.checking import Catalogue, required
from falaj.lifecycle.deciding import FAR, Failure, Outcome, Standing
from falaj.lifecycle.expressions import resolve
from falaj.lifecycle.operations.words import AGAIN, Family, Step, Until
from falaj.lifecycle.records import digest_of_step, read_definition
from falaj.lifecycle.rights import permissions_of
from falaj.lifecycle.store import runs as store
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.things import are_there
from falaj.lifecycle.writing import written
from falaj.operations.dispatcher import Call, Dispatcher
from falaj.operations.idempotency import LASTING
from falaj.operations.messages import adapter
from falaj.operations.store import LONGEST_KEY, withdraw
from falaj.optimisation.jobs import spec_of
from falaj.optimisation.operations.optimisations import (
    ABANDON_OPTIMISATION,
    PLAN_OPTIMISATION,
    SHOW_OPTIMISATION,
    OneOptimisation,
    Optimisation,
)

PROGRAM: Final = ("python", "-m", "falaj.client.pipelines.running")
RUN_VARIABLE: Final = "FALAJ_PIPELINE_RUN"  # by which a job's code knows what it is a part of
_PASS: Final = 10 * MINUTE
_RENEWED: Final = 5 * MINUTE
_AGAIN: Final = SECOND
_LOOKED_AT: Final = 5  # runs in which the same was done
_LEAST_PAUSE: Final = SECOND // 10  # between two questions of one step: whoever wants it sooner would ask all the time
_LONGEST_PAUSE: Final = 60 * SECOND
_LONGEST_JOB: Final = 86_400  # seconds, of a step that does not say
_OF_JOBS: Final[dict[str, Family]] = {"timeout": "timeout", "lost": "lost", "stopped": "lost"}
_FIRST: Final = {"function": SUBMIT_JOB.name, "optimise": PLAN_OPTIMISATION.name}  # what is called for the kinds of steps
log = logging.getLogger(__name__)


@value
class Order:
    """A step that is under way, and the run that it is of. `by` is in whose name it is done; `job` is its job as it ended,
    where it did. `stopping`: somebody wants the run to end. `ending`: for that or for a failure nothing more is begun."""

    run: str
    project: str
    pipeline: str
    token: str
    zone: str
    source: str
    anew: bool
    by: str
    step: Step
    standing: Standing
    scope: dict[str, Any]
    job: FoundJob | None = None
    stopping: bool = False
    ending: bool = False

    @property
    def key(self) -> str:
        one = self.standing
        return f"{keys_of(self.run)}{one.name} {one.item} {one.attempt}"

    def key_of(self, operation: str, what: str = "") -> str:
        return f"{self.key} {operation} {what}".strip()[:LONGEST_KEY]


def keys_of(run: str) -> str:
    """How the keys begin of all that a run calls."""
    return f"pipeline {run} "


def command_of(run: str, step: str, item: int) -> tuple[str, ...]:
    return (*PROGRAM, run, step, str(item))


class Doing:
    """Thread-safe."""

    def __init__(self, database: Database, clock: Clock, passes: Passes, dispatcher: Dispatcher, catalogue: Catalogue) -> None:
        self._database, self._clock = database, clock
        self._passes, self._dispatcher, self._catalogue = passes, dispatcher, catalogue
        self._known: dict[str, tuple[Moment, str]] = {}
        self._tries: dict[str, int] = {}
        self._lock = Lock()

    def do(self, order: Order) -> Outcome:
        """Never raises: what cannot be done now is news of when to try again."""
        try:
            outcome = self._given_up(order, self._tried(order))
        except TemporaryError as error:
            return self._later(order, error)
        with self._lock:
            self._tries.pop(order.key, None)
        return outcome

    def _tried(self, order: Order) -> Outcome:
        try:
            return self._done(order)
        except TemporaryError:
            raise
        except FalajError as error:
            return _failed(order, "permanent", str(error))
        except Exception as error:
            log.exception("step %s of run %s", order.standing.name, order.run)
            return _failed(order, "permanent", f"It could not be done: {type(error).__name__}.")

    def forget(self, token: str) -> None:
        with self._lock:
            self._known.pop(token, None)

    def _later(self, order: Order, error: TemporaryError) -> Outcome:
        with self._lock:
            tries = self._tries[order.key] = self._tries.get(order.key, 0) + 1
        pause = min(_LONGEST_PAUSE, max(_AGAIN << min(tries - 1, 10), int(error.delay * SECOND)))
        words = f"It is tried again: {error}"[:2000]
        return Outcome(attempt=order.standing.attempt, news={"due": self._clock.now() + pause, "words": words})

    def _done(self, order: Order) -> Outcome:
        one, step = order.standing, order.step
        has_begun = one.has_called and step.kind != "optimise"  # which is planned first, and then submitted
        if order.ending and not one.job and not has_begun and self._is_withdrawn(order):
            if one.has_called:
                self._abandon(order)
            return Outcome(attempt=one.attempt, news={"state": "cancelled", "ended": self._clock.now()})
        if order.stopping and one.job and order.job is None and step.kind != "operation":
            self._call_off(order, OF_JOBS, self._seen(OF_JOBS, [one.job]))
            return Outcome(attempt=one.attempt)  # how it ends is seen like any other end
        if step.kind == "function":
            return self._function(order) if order.job is None else self._of_job(order, order.job)
        if step.kind == "optimise":
            return self._optimise(order)
        if not one.has_called:
            return self._operation(order)
        return self._asked(order)

    def _is_withdrawn(self, order: Order) -> bool:
        """What was not called before the run was to end is not called any more. What was is: to be told what came of it."""
        one = order.standing
        following = SUBMIT_JOB.name if one.has_called else _FIRST.get(order.step.kind, order.step.operation)
        until = Moment(self._clock.now() + LASTING)
        return self._database.write(lambda work: withdraw(work, order.by, order.key_of(following), until))

    # Functions

    def _function(self, order: Order) -> Outcome:
        digest = digest_of_step(order.step, order.standing.arguments)
        if (known := self._done_before(order, digest)) is not None:
            return known
        request = Submit(project=self._project(order), spec=_spec_of(order))
        job = self._call(order, SUBMIT_JOB, request).job.id
        failpoint("pipelines.job-submitted")
        return Outcome(attempt=order.standing.attempt, news={"job": job, "digest": digest})

    def _done_before(self, order: Order, digest: str) -> Outcome | None:
        """What came out when the same was done, as long as it is there. What a function is made of is said by whoever wrote it
        down: another one's word for that is not taken, unless their files are these very files."""
        if not digest or order.anew:
            return None
        found = self._database.read(lambda work: _known_of(work, order, digest))
        if found is None or found.run == order.run:
            return None
        result = json.loads(found.result) if found.result else None
        if not self._database.read(lambda work: are_there(work, ProjectId(order.project), result)):
            return None
        news = {"cached": found.cached or found.run, "digest": digest}
        return Outcome(attempt=order.standing.attempt, over=True, result=result, news=news)

    def _of_job(self, order: Order, job: FoundJob) -> Outcome:
        """What it told counts once it has ended well; where it did not, that is how it failed."""
        one = order.standing
        row = self._database.read(lambda work: store.step(work, order.run, one.name, one.item))  # it told before it ended
        told = json.loads(row.told) if row is not None and row.told else {}
        own = told.get("job") == job.id
        if job.state == "done":
            if not own:
                return _failed(order, "permanent", "Its job ended and told nothing of what came out.")
            return Outcome(attempt=order.standing.attempt, over=True, result=told["result"])
        if own and told.get("family"):
            return _failed(order, told["family"], str(told.get("words", "")))
        digits = job.id[-8:]
        words = f"Its job {digits} is {job.state}: {job.words} `falaj job logs {digits}` shows what it wrote."
        # Its program could not tell the platform: nothing is known of it that trying again would not mend.
        could_not_tell = order.step.kind == "function" and job.cause == "failed" and job.code == AGAIN
        return _failed(order, "temporary" if could_not_tell else _OF_JOBS.get(job.cause, "permanent"), words)

    # Operations

    def _operation(self, order: Order) -> Outcome:
        digest = digest_of_step(order.step, order.standing.arguments)
        if order.step.until is None and (known := self._done_before(order, digest)) is not None:
            return known
        answer = self._answer(order, order.step.operation, order.standing.arguments)
        failpoint("pipelines.operation-called")
        if order.step.until is None:
            return Outcome(attempt=order.standing.attempt, over=True, result=answer, news={"digest": digest})
        written(answer)  # it is kept while it is asked on
        news = {"called": answer, "has_called": True, "job": job_in(order.step, answer), "due": 0, "words": ""}
        return Outcome(attempt=order.standing.attempt, news=news)

    def _asked(self, order: Order) -> Outcome:
        until = order.step.until
        if until is None:
            raise Invalid("It was called already.")
        how, now = calling_off(order.step), self._clock.now()
        afoot = () if how is None else self._seen(how, how.ids(order.standing.called))
        deadline = _deadline(order, afoot)
        try:
            heard = self._heard(order, until)
        except TemporaryError:  # it is given up all the same, where it is to be
            if not order.stopping and now < deadline:
                raise
            heard = None
        if heard is not None and heard.failure is None:
            return heard
        if order.stopping:
            return Outcome(attempt=order.standing.attempt, news={"state": "cancelled", "ended": now})
        if (why := _given_up_for(order)) is not None:
            return why
        if heard is not None:
            return heard
        if now >= deadline:
            return _failed(order, "timeout", f"It was not over after {order.step.seconds} seconds.")
        pause = max(_LEAST_PAUSE, int(until.every * SECOND))
        return Outcome(attempt=order.standing.attempt, news={"due": min(now + pause, deadline)})

    def _heard(self, order: Order, until: Until) -> Outcome | None:
        """How it ended; None while it has not."""
        scope = {**order.scope, "called": order.standing.called}
        answer = self._answer(order, until.operation, resolve(until.arguments, scope), "asked")
        scope["answer"] = answer
        if resolve(until.failed, scope):
            return _failed(order, "permanent", _words_in(answer) or _failure_told(order, until))
        if resolve(until.done, scope):
            made = answer if until.result is None else resolve(until.result, scope)
            return Outcome(attempt=order.standing.attempt, over=True, result=made)
        return None

    def _answer(self, order: Order, name: str, arguments: Any, what: str = "") -> Any:
        operation = required(self._catalogue, name)
        request = _request(operation, {"project": self._project(order), **arguments})
        answer = self._call(order, operation, request, what)
        return adapter(operation.result).dump_python(answer, mode="json")

    # Optimising

    def _optimise(self, order: Order) -> Outcome:
        """1. decide what is searched for; 2. submit the platform's own job; 3. say what it found."""
        one, project = order.standing, self._project(order)
        if not one.has_called:
            wished = {name: given for name, given in one.arguments.items() if name not in ("cpus", "memory_mib")}
            planned = self._call(order, PLAN_OPTIMISATION, _request(PLAN_OPTIMISATION, {"project": project, **wished}))
            called = {"optimisation": planned.id}
            return Outcome(attempt=one.attempt, news={"called": called, "has_called": True, "due": 0})
        found: Optimisation = self._call(order, SHOW_OPTIMISATION, self._planned(order), "asked")
        if not one.job:
            size = Resources(cpus=float(one.arguments.get("cpus", 1.0)), memory_mib=int(one.arguments.get("memory_mib", 4096)))
            longest = order.step.seconds or _LONGEST_JOB
            wish = Spec(command=("python",), resources=size, zone=order.zone, timeout=longest, variables=())
            spec = spec_of(found, wish)
            job = self._call(order, SUBMIT_JOB, Submit(project=project, spec=spec)).job.id
            return Outcome(attempt=one.attempt, news={"job": job})
        if order.job is not None and order.job.state != "done":
            return self._of_job(order, order.job)
        best = next((each for each in found.variants if each.best), None)
        result = {
            "optimisation": found.id,
            "model": found.model,
            "version": found.version,
            "variant": "" if best is None else best.name,
            "certified": sum(bool(each.certificate) for each in found.variants),
        }
        return Outcome(attempt=one.attempt, over=True, result=result)

    def _planned(self, order: Order) -> OneOptimisation:
        return OneOptimisation(project=self._project(order), optimisation=order.standing.called["optimisation"])

    def _abandon(self, order: Order) -> None:
        try:
            self._call(order, ABANDON_OPTIMISATION, self._planned(order))
        except TemporaryError:
            raise
        except FalajError as error:  # the step ends all the same
            log.info("the optimisation of run %s stays open: %s", order.run, error)

    # Giving up

    def _given_up(self, order: Order, outcome: Outcome) -> Outcome:
        """What the try brought under way is over before the try is, so that nothing of it stands beside the next one. Why it is
        given up is kept meanwhile: a job that was called off says nothing of that."""
        how, one = calling_off(order.step), order.standing
        is_given_up = outcome.failure is not None or "state" in outcome.news
        if how is None or not one.has_called or not is_given_up:
            return outcome
        if not self._call_off(order, how, self._seen(how, how.ids(one.called))):
            return outcome
        news: dict[str, Any] = {"due": self._clock.now() + _AGAIN, "words": "What it began is being stopped."}
        if (failure := outcome.failure) is not None:
            news["told"] = {"given_up": failure.family, "words": failure.words}
        return Outcome(attempt=one.attempt, news=news)

    def _seen(self, how: CallingOff, ids: Sequence[str]) -> tuple[Afoot, ...]:
        return self._database.read(lambda work: how.seen(work, ids))

    def _call_off(self, order: Order, how: CallingOff, afoot: Sequence[Afoot]) -> bool:
        """Whether there is an end to wait for: of what ended already there is not, nor of what this run may not call off."""
        waits, project = False, self._project(order)
        if order.step.kind == "operation":
            project = order.standing.arguments.get("project", project)
        for one in afoot:
            if one.ended is not None:
                continue
            try:
                if not one.called_off:
                    self._call(order, how.operation, how.request(project, one.id), f"off {one.id[-12:]}")
                waits = True
            except TemporaryError:
                raise
            except FalajError as error:
                log.info("%s of run %s was not called off: %s", one.id, order.run, error)
        failpoint("pipelines.called-off")
        return waits

    # Calling

    def _call(self, order: Order, operation: Operation[Any, Any], request: Any, what: str = "") -> Any:
        now = self._clock.now()
        key = order.key_of(operation.name, what)
        call = Call(credentials=self._credentials(order, now), request_id=new_id(now), idempotency_key=key, lasts=True)
        return self._dispatcher.call(operation, request, call)

    def _credentials(self, order: Order, now: Moment) -> str:
        """A pass of the run's token, good for minutes: made here, and never seen outside."""
        with self._lock:
            until, known = self._known.get(order.token, (Moment(0), ""))
        if now < until:
            return known
        made = self._database.read(lambda work: self._issued(work, order, now))
        with self._lock:
            self._known[order.token] = (Moment(now + _RENEWED), made)
        return made

    def _issued(self, work: UnitOfWork, order: Order, now: Moment) -> str:
        token = token_by_id(work, TokenId(order.token))
        if token is None or token.revoked is not None or token.expires <= now:
            raise Unauthenticated("What it was started with was revoked, or has expired: start it again.")
        claims = Claims(
            principal=token.principal,
            token=token.id,
            scopes=token.scopes,
            projects=token.projects,
            zone=token.zone,
            not_before=now,
            expires=Moment(min(now + _PASS, token.expires)),
        )
        return self._passes.issue(work, claims, now)

    def _project(self, order: Order) -> str:
        found = self._database.read(lambda work: project_by_id(work, ProjectId(order.project)))
        if found is None:
            raise Invalid("Its project is not there any more.")
        return found.name


def _known_of(work: UnitOfWork, order: Order, digest: str) -> Found | None:
    for found in store.done_before(work, order.project, digest, order.by, _LOOKED_AT):
        is_own = found.started_by == found.created_by == order.by
        if order.step.function is None or is_own or read_definition(found.definition).source == order.source:
            return found
    return None


def _spec_of(order: Order) -> Spec:
    one, step, function = order.standing, order.step, order.step.function
    if function is None:
        raise Invalid("It has no function.")
    return Spec(
        name=f"{order.pipeline[:60]} {one.name}"[:100],
        command=command_of(order.run, one.name, one.item),
        source=order.source,
        lock=function.lock,
        image=function.image,
        resources=function.resources,
        queue=function.queue,
        zone=order.zone,
        timeout=step.seconds or _LONGEST_JOB,
        retries=0,
        variables=(Setting(name=RUN_VARIABLE, value=order.run),),
        secrets=function.secrets,
        hosts=function.hosts,
        permissions=tuple(sorted(permissions_of(step))),
        experiment=function.experiment,
    )


def _request(operation: Operation[Any, Any], fields: dict[str, Any]) -> Any:
    try:
        return adapter(operation.request).validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"{operation.name} does not take that: {where}: {first['msg']}.") from None


def _deadline(order: Order, afoot: Sequence[Afoot]) -> int:
    began = time_began(afoot, order.standing.begun or 0)
    return FAR if began is None or not order.step.seconds else began + order.step.seconds * SECOND


def _failed(order: Order, family: Family, words: str) -> Outcome:
    return Outcome(attempt=order.standing.attempt, over=True, failure=Failure(family=family, words=words[:2000]))


def _given_up_for(order: Order) -> Outcome | None:
    told = order.standing.told or {}
    return _failed(order, told["given_up"], told["words"]) if told.get("given_up") else None


def _failure_told(order: Order, until: Until) -> str:
    """Where the answer itself has no words for it."""
    called = order.standing.called
    state = called.get("state") if isinstance(called, dict) else None
    return f"{order.step.operation} was answered by {state!r}." if state else f"{until.operation} says that it failed."


def _words_in(answer: Any) -> str:
    found = [answer.get(name) for name in ("words", "reason", "problem")] if isinstance(answer, dict) else []
    return next((one for one in found if isinstance(one, str) and one), "")
