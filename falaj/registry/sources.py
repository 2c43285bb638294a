"""What the registry asks of whoever keeps runs and their files, or makes something of versions; `app` wires it."""

from collections.abc import Collection, Mapping
from typing import Protocol

from falaj.base.values import value
from falaj.database.work import Context
from falaj.registry.operations.versions import VersionFile


@value
class SourceFile:
    """A file to register. `name` is relative to the folder that is registered; `digest` is the SHA-256 of `blob`'s content;
    `token` is the one that it was brought by, where that is known."""

    name: str
    blob: str
    size: int
    digest: str
    token: str = ""

    @property
    def shown(self) -> VersionFile:
        return VersionFile(name=self.name, size=self.size, digest=self.digest)


@value
class RunFacts:
    """What a comparison of versions says about the runs they came from; `metrics` are the last values."""

    params: Mapping[str, str]
    metrics: Mapping[str, float]


class Sources(Protocol):
    """All only read, within the context's transaction and project."""

    def files(self, context: Context, holder: str, folder: str) -> tuple[SourceFile, ...]:
        """All files below a folder of a run or a logged model (`m-...`), everything where it is empty, in one order. Raises
        `NotFound` where the project has no such holder."""
        ...

    def run(self, context: Context, run: str) -> RunFacts | None:
        """None where the project has no such run."""
        ...

    def run_of(self, context: Context, model: str) -> str:
        """The run that logged a model; empty where none did, or there is no such model."""
        ...

    def replay_of(self, context: Context) -> str:
        """The version that whoever registers something now makes again, to see whether the same comes out; empty for none."""
        ...

    def authors(self, context: Context) -> Collection[str]:
        """Who else stands behind what asks now: who started its run or went on with it, and who wrote it where it was started
        by itself."""
        ...


class Dependents(Protocol):
    """Whatever others made of versions."""

    def let_go(self, context: Context, version: str) -> None:
        """A version is being deleted, in this transaction."""
        ...
