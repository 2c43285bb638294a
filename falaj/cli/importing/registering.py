"""Bringing over registered models with their versions, stages and aliases, once runs and logged models are here.

Versions keep their numbers. One whose files came over is registered from them, and signed; another is written down with the
place where its files are said to be. An alias that stands here already stays where it is.
"""

import re

from falaj.base.errors import Conflict, NotFound
from falaj.cli.importing.bringing import Bringing
from falaj.cli.importing.journal import Done
from falaj.cli.importing.records import Registered, Version
from falaj.registry.operations import models, promotions, versions
from falaj.registry.operations.words import ModelTag

# Where MLflow keeps the files of logged models and of runs, below whatever root.
OF_MODEL = re.compile(r"(?:^models:/|/models/)(?P<id>m-[0-9a-f]{32})(?:/artifacts)?(?:/(?P<folder>.+))?$")
OF_RUN = re.compile(r"(?:^runs:/(?P<named>[^/]+)|/(?P<kept>[^/]+)/artifacts)(?:/(?P<folder>.+))?$")


class Registering:
    def __init__(self, bringing: Bringing) -> None:
        self._bringing = bringing
        self._target = bringing.target
        self._project = bringing.target.project
        self.remarks: list[str] = []
        self.versions: dict[str, set[int]] = {}  # of each model
        self.aliases: dict[str, set[str]] = {}

    def bring(self) -> None:
        """All are looked up before the first is brought, so that it is known how many there are."""
        found = [(model, self._chosen(model)) for model in self._bringing.source.registered()]
        wanted = [(model, chosen) for model, chosen in found if chosen or not self._bringing.wanted]
        self._bringing.bars.expected("registered models", len(wanted))
        self._bringing.bars.expected("versions", sum(len(chosen) for _, chosen in wanted))
        for model, chosen in wanted:
            numbers = {version.version for version in chosen}
            aliases = [(alias, version) for alias, version in model.aliases if version in numbers]
            self.versions[model.name], self.aliases[model.name] = numbers, {alias for alias, _ in aliases}
            self._bringing.count({"registered models": 1, "versions": len(chosen), "aliases": len(aliases)})
            with self._bringing.attempt("registered model", model.name, alone=True):
                here = self._model(model)
                known = self._versions(model.name)
                for version in chosen:
                    with self._bringing.attempt("version", f"{model.name}/{version.version}", alone=True):
                        self._version(model.name, version, known.get(version.version))
                    self._bringing.bars.brought("versions")
                for alias, number in aliases:
                    with self._bringing.attempt("alias", f"{model.name}@{alias}", alone=True):
                        self._alias(model.name, alias, number, here)
            self._bringing.bars.brought("registered models")

    def _chosen(self, model: Registered) -> list[Version]:
        """All of them, or where only some experiments were asked for, those whose run came over."""
        came = self._bringing.journal
        return [one for one in model.versions if not self._bringing.wanted or came.get("run", one.run) is not None]

    def _model(self, model: Registered) -> models.Model:
        try:
            return self._target.call(models.SHOW_MODEL, models.OneModel(project=self._project, model=model.name))
        except NotFound:
            request = models.CreateModel(
                project=self._project, model=model.name, description=model.description, tags=_tags(model)
            )
            return self._target.call(models.CREATE_MODEL, request)

    def _versions(self, model: str) -> dict[int, versions.Version]:
        quoted = model.replace("'", "''")

        def ask(cursor: str) -> versions.SearchVersions:
            return versions.SearchVersions(project=self._project, filter=f"name = '{quoted}'", limit=1000, cursor=cursor)

        return {found.version: found for found in self._target.every(versions.SEARCH_VERSIONS, ask)}

    def _version(self, model: str, version: Version, known: versions.Version | None) -> None:
        """Make it and give it its stage, once: who moves it here afterwards is not overruled."""
        key = f"{model}/{version.version}"
        if known is not None and known.source != version.source:
            raise Conflict(f"Version {version.version} of {model} here is another one, made of {known.source or known.holder}.")
        if self._bringing.journal.get("version", key) is not None:
            return
        if known is None:
            known = self._create(model, version)
        if version.stage != known.stage:
            request = promotions.SetStage(
                project=self._project, model=model, version=version.version, stage=version.stage, reason=self._reason
            )
            if not self._moved(self._target.call(promotions.SET_STAGE, request)):
                return
        self._bringing.journal.add("version", key, Done(mark="", id=known.id, counts={}))

    def _create(self, model: str, version: Version) -> versions.Version:
        holder, folder = self._held(version)
        maker = self._bringing.journal.get("run", version.run)
        request = versions.CreateVersion(
            project=self._project,
            model=model,
            version=version.version,
            holder=holder,
            folder=folder,
            source=version.source,
            run=maker.id if maker else "",
            description=version.description,
            tags=_tags(version),
        )
        return self._target.call(versions.CREATE_VERSION, request)

    def _held(self, version: Version) -> tuple[str, str]:
        """What has its files here, and the folder in it; nothing where they are not here."""
        for place in (version.source, version.place):
            for pattern, kind in ((OF_MODEL, "logged model"), (OF_RUN, "run")):
                if (match := pattern.search(place)) is None:
                    continue
                named = match.groupdict()
                done = self._bringing.journal.get(kind, named.get("id") or named.get("named") or named.get("kept") or "")
                folder = (named["folder"] or "").strip("/")
                if done is not None and self._has_files(done, folder):
                    return done.id, folder
        return "", ""

    def _has_files(self, done: Done, folder: str) -> bool:
        return any(not folder or name == folder or name.startswith(f"{folder}/") for name in self._target.files(done.id))

    def _alias(self, model: str, alias: str, version: int, here: models.Model) -> None:
        standing = {one.alias: one.version for one in here.aliases}
        if alias in standing:
            if standing[alias] != version:
                self.remarks.append(f"{alias} of {model} points at {standing[alias]} here and at {version} there; it stays.")
            return
        request = promotions.Promote(project=self._project, model=model, alias=alias, version=version, reason=self._reason)
        self._moved(self._target.call(promotions.PROMOTE, request))

    @property
    def _reason(self) -> str:
        return f"as it was in {self._target.label}"[:2000]

    def _moved(self, promotion: promotions.Promotion) -> bool:
        """Whether it is done; what waits is asked for again by the next import."""
        if promotion.state == "waiting":
            self.remarks.append(
                f"{promotion.alias} of {promotion.model} waits for approval before it points at {promotion.version}. "
                f"Somebody else approves with: falaj model approve {promotion.approval} --project {self._project}; "
                "then run the same import again."
            )
        return promotion.state != "waiting"


def _tags(thing: Registered | Version) -> tuple[ModelTag, ...]:
    return tuple(ModelTag(key=tag.key, value=tag.value) for tag in thing.tags)
