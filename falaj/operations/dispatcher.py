"""The one way in: authenticate, authorise, open the transaction, run, write the leaf, commit.

A call is admitted on a read snapshot first, so that strangers never occupy the writer; inside the write transaction the
governance generation is compared, and where it moved the call is admitted again. The effect and its leaf commit together.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from falaj.base.caller import Identity
from falaj.base.clock import MINUTE, Clock, Moment
from falaj.base.errors import Conflict, FalajError, Forbidden, NotFound
from falaj.base.operation import Download, Group, Operation, Record, Scope
from falaj.base.values import value
from falaj.database.binding import Bound
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import Gatekeeper, Grant
from falaj.governance.identity.people import person_meant
from falaj.governance.ledger import recording
from falaj.governance.ledger.leaves import Outcome
from falaj.operations.idempotency import earlier_answer, keep_answer
from falaj.operations.messages import without_secrets

Req = TypeVar("Req")
Res = TypeVar("Res")


@value
class Call:
    """What comes with a request besides the request itself.

    `content` is the request as it came, where it is at hand: telemetry is digested, and need not be written out again for it.
    What is answered under a key that `lasts` is kept until whoever gave it lets it go (`operations.store.let_go`).
    """

    credentials: str | None
    request_id: str
    idempotency_key: str = ""
    chunks: Iterator[bytes] | None = None
    content: bytes = b""
    lasts: bool = False


READS = (Record.PLAIN_READ, Record.SENSITIVE_READ)
RELIEVING = ("disable", "erase", "revoke", "revoke-token", "shred")
MOST_REFUSALS_A_MINUTE = 3000


class Dispatcher:
    """Thread-safe. Raises the errors of `base.errors`; anything else is a bug."""

    def __init__(
        self,
        *,
        database: Database,
        gate: Gatekeeper,
        clock: Clock,
        bindings: Iterable[Bound],
        check_room: Callable[[], None] = lambda: None,
    ) -> None:
        """`check_room` raises `OutOfSpace` where the disk has room for nothing but records and deletions."""
        self._check_room = check_room
        self._database = database
        self._gate = gate
        self._clock = clock
        self._refusals = _Refusals()
        self._bound: dict[str, Bound] = {}
        for bound in bindings:
            if bound.operation.name in self._bound:
                raise ValueError(f"operation {bound.operation.name!r} is bound twice")
            self._bound[bound.operation.name] = bound

    @property
    def operations(self) -> list[Operation[Any, Any]]:
        return [bound.operation for bound in self._bound.values()]

    def call(self, operation: Operation[Req, Res], request: Req, call: Call) -> Res:
        result = self._call(operation, request, call)
        return _begun(result) if isinstance(result, Download) else result

    def shortcut(self, operation: Operation[Req, Res], request: Req, call: Call) -> Future[Res] | None:
        """Get in line for the writer at once and wait in no thread; None where the call has to take the long way.

        So has a call that failed on this one: it left nothing, and `call` knows how to refuse and to record that.
        """
        bound = self._bound[operation.name]
        admission = _Admission(self._gate, self._clock, operation, request, call)
        if operation.record in READS or bound.in_two_steps or not admission.recalled():
            return None
        if _needs_room(operation):
            self._check_room()
        return self._database.submit(lambda work: self._apply(work, bound, admission, (request,)))

    def read_for(self, context: Context, operation: Operation[Req, Res], request: Req) -> Res:
        """A plain read for whoever `context` is of, in snapshots of its own: for rooms that tell what others know.

        Policy is asked as for any call. A refusal raises and leaves no leaf: the reader did not ask for this by himself.
        """
        if operation.record is not Record.PLAIN_READ:
            raise ValueError(f"{operation.name!r} leaves a trace, so nobody may be made to ask for it")
        bound = self._bound[operation.name]

        def admitted(work: UnitOfWork) -> Context:
            grant = self._gate.authorise(work, context.identity, operation, request)
            return replace(context, work=work, project=grant.project, facts={})

        arguments: tuple[Any, ...] = (request,)
        if bound.in_two_steps:
            detached = replace(self._database.read(admitted), work=_NoWork())
            arguments += bound.first_step(detached, request, None)
        return self._database.read(lambda work: bound.handle(admitted(work), *arguments))  # type: ignore[no-any-return]

    def _call(self, operation: Operation[Req, Res], request: Req, call: Call) -> Res:
        bound = self._bound[operation.name]
        admission = _Admission(self._gate, self._clock, operation, request, call)
        try:
            if operation.record in READS:
                return self._read(bound, admission)  # type: ignore[no-any-return]
            if bound.in_two_steps or not admission.recalled():
                self._database.read(admission.admit)
            if _needs_room(operation):
                self._check_room()
            if bound.prepare is not None and (earlier := self._database.read(admission.earlier_answer)) is not None:
                return earlier  # type: ignore[no-any-return]
            arguments = (request, *bound.first_step(admission.detached_context(), request, call.chunks))
            return self._write(bound, admission, arguments)  # type: ignore[no-any-return]
        except (Forbidden, NotFound) as refusal:
            if admission.is_refused_by(refusal):
                self._record_refusal(admission, refusal)
            raise

    def _read(self, bound: Bound, admission: "_Admission") -> Any:
        """On a snapshot, so that reading never occupies the writer. What a sensitive read found is told only once its leaf is
        durable."""
        arguments: tuple[Any, ...] = (admission.request,)
        if bound.in_two_steps:
            self._database.read(admission.admit)
            arguments += bound.first_step(admission.detached_context(), admission.request, None)
        result = self._database.read(lambda work: bound.handle(admission.context(work), *arguments))
        if bound.operation.record is Record.SENSITIVE_READ:
            self._database.write(lambda work: _record_done(admission.bare_context(work), bound.operation, admission.request))
        return result

    def _write(self, bound: Bound, admission: "_Admission", arguments: tuple[Any, ...]) -> Any:
        try:
            return self._database.write(lambda work: self._apply(work, bound, admission, arguments))
        except Conflict:
            # It may have come twice at once, and this is the one that lost: then the other one's answer is the answer.
            if admission.key and (earlier := self._database.read(admission.earlier_answer)) is not None:
                return earlier
            raise

    def _apply(self, work: UnitOfWork, bound: Bound, admission: "_Admission", arguments: tuple[Any, ...]) -> Any:
        """Inside the write transaction: effect and leaf, or neither."""
        if (earlier := admission.earlier_answer(work)) is not None:
            return earlier
        context = admission.context(work)
        operation = bound.operation
        result = bound.handle(context, *arguments)
        _record_done(context, operation, admission.request, admission.call.content)
        if admission.key:
            keep_answer(context, admission.key, operation, admission.request, result, lasts=admission.call.lasts)
        return result

    def _record_refusal(self, admission: "_Admission", refusal: Forbidden | NotFound) -> None:
        """An authenticated caller who was refused leaves a leaf too; where that fails, the refusal stands all the same."""

        def record(work: UnitOfWork) -> None:
            rule = refusal.rule if isinstance(refusal, Forbidden) else "not-visible"
            project = admission.project_knocked_at(work)
            context = admission.bare_context(work)
            about = person_meant(work, admission.request)
            _record(
                context, admission.operation, admission.request, project=project, outcome="refused", rule=rule, subject=about
            )

        if not self._refusals.admits(admission.principal, self._clock.now()):
            return
        try:
            self._check_room()  # what refused callers leave must not take the room that others need
            self._database.write(record)
        except FalajError as error:
            raise refusal from error


def _record_done(context: Context, operation: Operation[Any, Any], request: Any, content: bytes = b"") -> None:
    """Telemetry is counted into its window; everything else is a leaf of its own."""
    project = context.project.id if context.project else ""
    if operation.record is not Record.TELEMETRY:
        _record(context, operation, request, project=project)
        return
    recording.count(
        context.work,
        operation=operation,
        content=content or without_secrets(request),
        subject=str(getattr(request, operation.subject)) if operation.subject else "",
        identity=context.identity,
        project=project,
        now=context.now,
    )


def _begun(download: Download) -> Any:
    """Ask for the first bytes now: what is missing or altered is then an error, and not an answer that breaks off."""
    first = next(download.chunks, b"")
    return replace(download, chunks=chain((first,), download.chunks))


def _record(
    context: Context,
    operation: Operation[Any, Any],
    request: Any,
    *,
    project: str,
    outcome: Outcome = "done",
    rule: str = "",
    subject: str = "",
) -> None:
    recording.append(
        context.work,
        operation=operation,
        request=request,
        identity=context.identity,
        project=project,
        now=context.now,
        request_id=context.request_id,
        facts=context.facts,
        outcome=outcome,
        rule=rule,
        subject=subject,
    )


def _needs_room(operation: Operation[Any, Any]) -> bool:
    """Not reading, whose record is small; not what makes room or shuts somebody out; not coming in, to see to it."""
    changes = operation.record in (Record.CHANGE, Record.TELEMETRY)
    relieves = operation.method == "DELETE" or operation.name.rpartition(".")[2] in RELIEVING
    return changes and not relieves and operation.permission.group not in (Group.PUBLIC, Group.SELF)


class _Refusals:
    """How many refusals of one principal are put on record: enough to see what it is after, too few to drown the ledger in."""

    def __init__(self) -> None:
        self._minute = 0
        self._counts: Counter[str] = Counter()

    def admits(self, principal: str, now: Moment) -> bool:
        if now // MINUTE != self._minute:
            self._minute, self._counts = now // MINUTE, Counter()
        self._counts[principal] += 1
        return self._counts[principal] <= MOST_REFUSALS_A_MINUTE


class _Admission:
    """One call on its way through the gate: who asks, and what was granted on which generation."""

    def __init__(self, gate: Gatekeeper, clock: Clock, operation: Operation[Any, Any], request: Any, call: Call) -> None:
        self._gate = gate
        self._clock = clock
        self.operation = operation
        self.request = request
        self.call = call
        self._identity: Identity | None = None
        self._grant: Grant | None = None
        self._facts: dict[str, Any] = {}
        self._hidden = False

    @property
    def is_known(self) -> bool:
        return self._identity is not None and self._identity.token is not None

    @property
    def key(self) -> str:
        """The idempotency key where it means something: what only reads is repeated as it is, and all strangers are one."""
        return self.call.idempotency_key if self.is_known and self.operation.record is not Record.SENSITIVE_READ else ""

    def admit(self, work: UnitOfWork) -> None:
        identity = self._identity = self._gate.authenticate(work, self.call.credentials, self._clock.now())
        try:
            self._grant = self._gate.authorise(work, identity, self.operation, self.request)
        except NotFound:
            self._hidden = True
            raise

    def recalled(self) -> bool:
        """Whether the same caller was let in for the same a moment ago: the transaction holds that against the generation."""
        known = self._gate.recall(self.call.credentials, self.operation, self.request, self._clock.now())
        if known is not None:
            self._identity, self._grant = known
        return known is not None

    @property
    def principal(self) -> str:
        return self._identity.principal if self._identity else ""

    def is_refused_by(self, error: Forbidden | NotFound) -> bool:
        """A known caller was refused, and this is not merely a thing that does not exist."""
        return self.is_known and (self._hidden or isinstance(error, Forbidden))

    def project_knocked_at(self, work: UnitOfWork) -> str:
        """The id of the project the call was about, so that its own auditors see who was refused; empty where there is none."""
        if self.operation.scope is not Scope.PROJECT:
            return ""
        project = self._gate.project(work, self._gate.generation(work), self.request.project)
        return project.id if project else ""

    def context(self, work: UnitOfWork) -> Context:
        """The context of a transaction in which the grant is known to hold."""
        if self._grant is None or self._gate.generation(work) != self._grant.generation:
            self.admit(work)
        return self.bare_context(work)

    def bare_context(self, work: UnitOfWork) -> Context:
        if self._identity is None:
            raise RuntimeError("a context is made only after authentication")
        return Context(
            work=work,
            identity=self._identity,
            project=self._grant.project if self._grant else None,
            now=self._clock.now(),
            request_id=self.call.request_id,
            facts=self._facts,
        )

    def earlier_answer(self, work: UnitOfWork) -> Any:
        """What this call was answered before, under the same idempotency key; None where it is new."""
        context = self.context(work)
        return earlier_answer(context, self.key, self.operation, self.request) if self.key else None

    def detached_context(self) -> Context:
        """For what happens between admission and transaction: it has no unit of work to use."""
        return self.bare_context(_NoWork())


class _NoWork(UnitOfWork):
    def __init__(self) -> None: ...

    def execute(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no transaction is open here: do this in the handler")
