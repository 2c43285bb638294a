"""`falaj.copy_model("late@champion", to="production")`: a version of one project becomes a version of another.

Nothing here is allowed to do more than its caller: what is read is asked of the one project, what is written of the other, and
each decides by its own policies, in its own ledger. Everything is looked for before it is made, so that whoever was killed says
the same again.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

from falaj.base.clock import SystemClock
from falaj.base.errors import Conflict, Corrupt, FalajError, Forbidden, Invalid, PermanentError
from falaj.base.failpoints import failpoint
from falaj.base.values import value
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.http import Client
from falaj.client.patience import patiently
from falaj.client.pipelines.kinds import ModelVersion
from falaj.governance.projects.operations import LIST_PROJECTS, ListProjects, Projects
from falaj.registry.operations.models import CREATE_MODEL, SHOW_MODEL, CreateModel, OneModel
from falaj.registry.operations.promotions import RESOLVE, Resolve
from falaj.registry.operations.versions import (
    CREATE_VERSION,
    DELETE_VERSION,
    GET_VERSION_FILE,
    LIST_VERSION_FILES,
    SEARCH_VERSIONS,
    SHOW_VERSION,
    VERIFY_VERSION,
    CreateVersion,
    GetVersionFile,
    ListVersionFiles,
    OneVersion,
    SearchVersions,
    Version,
    VersionFile,
)
from falaj.registry.operations.words import CHAMPION, ModelTag
from falaj.tracking.operations.artifacts import LIST_ARTIFACTS, PUT_ARTIFACT, ListArtifacts, PutArtifact
from falaj.tracking.operations.experiments import CREATE_EXPERIMENT, FIND_EXPERIMENT, CreateExperiment, FindExperiment
from falaj.tracking.operations.runs import IMPORT_RUN, SHOW_RUN, UPDATE_RUN, ImportRun, OneRun, UpdateRun
from falaj.tracking.operations.words import Status, Tag

FOLDER: Final = "model"
# What a copy says of where it comes from, as tags of its version and of its run.
PROJECT: Final = "falaj.copied.project"
MODEL: Final = "falaj.copied.model"
NUMBER: Final = "falaj.copied.version"
ID: Final = "falaj.copied.id"
DIGEST: Final = "falaj.copied.digest"
KEY: Final = "falaj.copied.key"
NOTE: Final = "mlflow.note.content"
LONGEST_DESCRIPTION: Final = 65_535
Watched = Callable[[Iterable[bytes], int, str], Iterable[bytes]]


@value
class Copied:
    """A version as it is in the project that it was brought to. `new` is False where it was there already."""

    project: str
    model: str
    version: int
    id: str
    run: str
    files: int
    size: int
    digest: str
    new: bool


@value
class Wish:
    """What is brought from where, and what it is called there."""

    project: str
    model: str
    version: int
    to: str
    name: str


def copy_model(
    version: str,
    *,
    project: str = "",
    to: str = "",
    name: str = "",
    token: str = "",
    client: Client | None = None,
) -> ModelVersion:
    """Bring `MODEL:VERSION` or `MODEL@ALIAS` of `project` into the project `to`, files, signature and all; either is
    FALAJ_PROJECT's where it is left out. `MODEL` alone is its champion. There it is called `name`, or as here.

    A job's own token reaches its own project alone. `token` is then one that reads in the other. The platform is the
    client's, or that of FALAJ_URL and FALAJ_TOKEN. Asked twice, it is the same version.
    """
    source, target = project_of_environment(project), project_of_environment(to)
    with ExitStack() as opened:
        writing = client if client is not None else opened.enter_context(client_of_environment())
        reading = opened.enter_context(client_of_environment(token)) if token else writing
        model, number = named(reading, source, version)
        wish = Wish(project=source, model=model, version=number, to=target, name=name or model)
        made = copied(reading, writing, wish)
    return ModelVersion(model=made.model, version=made.version)


def named(reading: Client, project: str, said: str) -> tuple[str, int]:
    """`MODEL:3`, `MODEL@alias` or `MODEL`, as its name and number."""
    model, mark, number = said.rpartition(":")
    if mark:
        if not (model and number.isascii() and number.isdigit() and int(number)):
            raise Invalid(f"{said!r} names no version; write it like card-fraud:3 or card-fraud@champion.")
        return model, int(number)
    model, _, alias = said.partition("@")
    return model, reading.call(RESOLVE, Resolve(project=project, model=model, alias=alias or CHAMPION)).version


def copied(reading: Client, writing: Client, wish: Wish, watched: Watched = lambda chunks, _size, _name: chunks) -> Copied:
    """Bring a version over. `reading` speaks with the project it comes from, `writing` with the one it goes to; `watched` sees
    the bytes of each file go by."""
    if wish.project == wish.to:
        raise Invalid(f"A copy goes into another project, and {wish.to!r} is where it is already; name another with to=.")
    work = _Copying(reading, writing, wish, watched)
    return work.found() or work.made()


class _Copying:
    """One version on its way. The run that holds its files has an id that is made of where they come from and where they go,
    so that whoever asks, and how often, fills the same one."""

    def __init__(self, reading: Client, writing: Client, wish: Wish, watched: Watched) -> None:
        self._reading, self._writing, self._wish, self._watched = reading, writing, wish, watched
        self._origin = OneVersion(project=wish.project, model=wish.model, version=wish.version)
        self._source = reading.call(SHOW_VERSION, self._origin)
        if not self._source.files:
            raise Invalid(
                f"Version {wish.version} of {wish.model!r} has no files in Falaj, only an address: there is nothing to copy. "
                "Register one from a run that has files."
            )
        made_of = f"{self._source.id}\n{wish.to}\n{wish.name}"
        self._run = hashlib.sha256(made_of.encode()).hexdigest()[:32]

    def found(self) -> Copied | None:
        """The copy that is there already."""
        name = self._wish.name.replace("'", "''")
        request = SearchVersions(project=self._wish.to, filter=f"name = '{name}' AND tags.`{ID}` = '{self._source.id}'")
        for one in self._writing.call(SEARCH_VERSIONS, request).items:
            if one.digest == self._source.digest:
                self._end("FINISHED")
                return self._told(one, new=False)
        return None

    def made(self) -> Copied:
        key = self._verified()
        zone = self._zone()
        self._make_model()
        self._make_run(key)
        try:
            self._bring(zone)
            made = self._register(key)
        except PermanentError:
            with suppress(FalajError):  # why it failed is what is told
                self._set("FAILED")
            raise
        failpoint("copies.registered")
        self._set("FINISHED")
        return self._told(made, new=True)

    # Steps

    def _verified(self) -> str:
        """The key that signed it. What its own project does not vouch for goes nowhere."""
        found = patiently(lambda: self._reading.call(VERIFY_VERSION, self._origin))
        if not found.ok:
            raise Corrupt(f"{self._place} is not what was signed, so it is not copied: {' '.join(found.problems)}")
        return found.key

    def _zone(self) -> str:
        """Where the copy is to lie: where the original does. A zone that the other project does not have is asked for as well:
        whether bytes may go there is for its policy to say."""
        here, there = _zones(self._reading, self._wish.project), _zones(self._writing, self._wish.to)
        if not here:
            raise Forbidden(
                f"Whoever copies needs a role in {self._wish.project!r}, whose zones say where the copy may lie: an admin "
                "gives one with `falaj project member add`."
            )
        return next((zone for zone in here if zone not in there), here[0])

    def _make_model(self) -> None:
        origin = self._reading.call(SHOW_MODEL, OneModel(project=self._wish.project, model=self._wish.model))
        with suppress(Conflict):  # it is there
            request = CreateModel(project=self._wish.to, model=self._wish.name, description=origin.description)
            self._writing.call(CREATE_MODEL, request)

    def _make_run(self, key: str) -> None:
        experiment = f"copies of {self._wish.name}"
        with suppress(Conflict):  # it is there
            self._writing.call(CREATE_EXPERIMENT, CreateExperiment(project=self._wish.to, name=experiment))
        found = self._writing.call(FIND_EXPERIMENT, FindExperiment(project=self._wish.to, name=experiment))
        said = (*((tag.key, tag.value) for tag in self._tags(key)), (NOTE, self._words))
        request = ImportRun(
            project=self._wish.to,
            run=self._run,
            experiment=found.id,
            name=f"{self._wish.name} from {self._wish.project}",
            status="RUNNING",
            started=int(SystemClock().now()) // 1000,
            tags=tuple(Tag(key=name, value=text) for name, text in said),
            source=self._place,
        )
        if self._writing.call(IMPORT_RUN, request).status != "RUNNING":  # one that failed goes on
            self._set("RUNNING")

    def _bring(self, zone: str) -> None:
        """File by file, without those that arrived before."""
        wanted = {file.name: file for file in self._files()}
        held = self._held()
        for name, file in wanted.items():
            if held.get(name) != file.digest:
                patiently(lambda file=file: self._put(file, zone))  # type: ignore[misc]
                failpoint("copies.stored")
        held = self._held()
        if held != {name: file.digest for name, file in wanted.items()}:
            odd = sorted(held.keys() ^ wanted.keys()) or sorted(name for name in wanted if held[name] != wanted[name].digest)
            raise Conflict(
                f"Run {self._run} of {self._wish.to!r} does not hold what {self._place} does: {odd[0]!r} differs. Empty it "
                f"with `falaj artifact delete {self._run} {FOLDER} -p {self._wish.to}`, and copy again."
            )

    def _put(self, file: VersionFile, zone: str) -> None:
        request = GetVersionFile(project=self._wish.project, model=self._wish.model, version=self._wish.version, name=file.name)
        there = PutArtifact(project=self._wish.to, holder=self._run, name=f"{FOLDER}/{file.name}", zone=zone)
        answer = self._reading.call(GET_VERSION_FILE, request)
        with closing(answer.chunks):  # type: ignore[type-var]  # where the upload is refused, bytes are left
            chunks = self._watched(_agreeing(answer.chunks, file), file.size, file.name)
            self._writing.call(PUT_ARTIFACT, there, chunks=chunks)

    def _files(self) -> Iterator[VersionFile]:
        request = ListVersionFiles(project=self._wish.project, model=self._wish.model, version=self._wish.version)
        return _every(lambda cursor: self._reading.call(LIST_VERSION_FILES, replace(request, cursor=cursor)))

    def _held(self) -> dict[str, str]:
        """What the run has, by the names that the version will know it by."""
        request = ListArtifacts(project=self._wish.to, holder=self._run, folder=FOLDER, deep=True)
        found = _every(lambda cursor: self._writing.call(LIST_ARTIFACTS, replace(request, cursor=cursor)))
        return {one.name.removeprefix(f"{FOLDER}/"): one.digest for one in found}

    def _register(self, key: str) -> Version:
        """Only now is there a version: before, nobody could take a part of it for the whole."""
        request = CreateVersion(
            project=self._wish.to,
            model=self._wish.name,
            holder=self._run,
            folder=FOLDER,
            run=self._run,
            source=self._place,
            description=f"{self._words} {self._source.description}".strip()[:LONGEST_DESCRIPTION],
            tags=self._tags(key),
        )
        made = self._writing.call(CREATE_VERSION, request)
        if made.digest != self._source.digest:  # somebody wrote into the run at this very moment
            self._writing.call(DELETE_VERSION, OneVersion(project=self._wish.to, model=made.model, version=made.version))
            raise Conflict(f"The files of {self._place} were changed on their way to {self._wish.to!r}; copy it again.")
        return made

    def _end(self, status: Status) -> None:
        """The run of a copy that was killed after its version was made."""
        with suppress(PermanentError):  # it may be deleted, and the version is there all the same
            if self._writing.call(SHOW_RUN, OneRun(project=self._wish.to, run=self._run)).info.status == "RUNNING":
                self._set(status)

    def _set(self, status: Status) -> None:
        ended = None if status == "RUNNING" else int(SystemClock().now()) // 1000
        self._writing.call(UPDATE_RUN, UpdateRun(project=self._wish.to, run=self._run, status=status, ended=ended))

    # Words

    @property
    def _place(self) -> str:
        return f"{self._wish.project}/{self._wish.model}:{self._wish.version}"

    @property
    def _words(self) -> str:
        return f"Copied from {self._place}."

    def _tags(self, key: str) -> tuple[ModelTag, ...]:
        said = {
            PROJECT: self._wish.project,
            MODEL: self._wish.model,
            NUMBER: str(self._wish.version),
            ID: self._source.id,
            DIGEST: self._source.digest,
            KEY: key,
        }
        return tuple(ModelTag(key=name, value=text) for name, text in said.items())

    def _told(self, one: Version, *, new: bool) -> Copied:
        return Copied(
            project=self._wish.to,
            model=one.model,
            version=one.version,
            id=one.id,
            run=one.run,
            files=one.files,
            size=one.size,
            digest=one.digest,
            new=new,
        )


def _zones(client: Client, project: str) -> tuple[str, ...]:
    """Those of a project that one has a role in; of another, none. Every token may ask."""
    found = chain(*(_every(partial(_page, client, archived)) for archived in (False, True)))
    return next((tuple(one.zones) for one in found if one.name == project), ())


def _page(client: Client, archived: bool, cursor: str) -> Projects:
    return client.call(LIST_PROJECTS, ListProjects(archived=archived, limit=1000, cursor=cursor))


def _every(ask: Callable[[str], Any]) -> Iterator[Any]:
    """What is on all pages of a list. `ask` takes a cursor."""
    page = ask("")
    yield from page.items
    while page.next:
        page = ask(page.next)
        yield from page.items


def _agreeing(chunks: Iterable[bytes], file: VersionFile) -> Iterator[bytes]:
    """The same chunks; what is not what was signed is never put to its end."""
    seen = hashlib.sha256()
    for chunk in chunks:
        seen.update(chunk)
        yield chunk
    if seen.hexdigest() != file.digest:
        raise Corrupt(f"The file {file.name!r} did not arrive as it was signed; copy it again.")
