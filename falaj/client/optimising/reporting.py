"""What the job tells the platform, and asks it: each call once more where the platform was restarted meanwhile."""

import hashlib
import os
from contextlib import suppress
from functools import partial
from typing import Any

from falaj.base.errors import Corrupt, FalajError
from falaj.client.http import Client
from falaj.client.patience import patiently
from falaj.jobs.operations.jobs import REPORT_JOB, Report
from falaj.optimisation.making.values import Made
from falaj.optimisation.operations import optimisations as planned
from falaj.optimisation.operations import variants as declared
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.optimisation.operations.variants import Variant
from falaj.optimisation.operations.words import FileSeen, Measures, Setting


class Platform:
    def __init__(self, client: Client, project: str, optimisation: str) -> None:
        self.client, self.project = client, project
        self._job = os.environ.get("FALAJ_JOB", "")
        self._named: dict[str, Any] = {"project": project, "optimisation": optimisation}

    def shown(self) -> Optimisation:
        return self._call(planned.SHOW_OPTIMISATION, planned.OneOptimisation(**self._named))  # type: ignore[no-any-return]

    def contents(self, files: tuple[FileSeen, ...], *, student: bool = False) -> dict[str, bytes]:
        found = {}
        for file in files:
            request = planned.ReadOptimisationFile(**self._named, file=file.name, student=student)
            content = self._bytes(planned.READ_OPTIMISATION_FILE, request)
            if hashlib.sha256(content).hexdigest() != file.digest:
                raise Corrupt(f"The model's file {file.name!r} arrived as another than was planned.")
            found[file.name] = content
        return found

    def describe(self, **told: Any) -> Optimisation:
        request = planned.Describe(**self._named, job=self._job, **told)
        return self._call(planned.DESCRIBE_OPTIMISATION, request)  # type: ignore[no-any-return]

    def begin(self, variant: str) -> bool:
        return bool(self._call(declared.BEGIN_VARIANT, declared.BeginVariant(**self._of(variant))).granted)

    def drop(self, variant: str, reason: str, measures: Measures | None = None, notes: tuple[str, ...] = ()) -> None:
        request = declared.RecordVariant(
            **self._of(variant), outcome="dropped", reason=reason[:2000], measures=measures, notes=notes
        )
        self._call(declared.RECORD_VARIANT, request)

    def keep(self, variant: str, made: Made, measures: Measures) -> Variant:
        for name, content in made.files.items():
            put = declared.PutVariantFile(**self._of(variant), file=name)
            patiently(partial(self.client.call, declared.PUT_VARIANT_FILE, put, chunks=[content]))
        request = declared.RecordVariant(
            **self._of(variant),
            outcome="made",
            runtime=made.runtime,
            file=made.file,
            files=tuple(made.files),
            settings=tuple(Setting(name=name, value=value) for name, value in made.settings.items()),
            notes=tuple(note[:2000] for note in made.notes),
            measures=measures,
        )
        return self._call(declared.RECORD_VARIANT, request)  # type: ignore[no-any-return]

    def variant_contents(self, variant: Variant) -> dict[str, bytes]:
        """Of one that was made by an earlier try."""
        found = {}
        for file in variant.files:
            request = declared.ReadVariantFile(
                project=self.project, model=variant.model, version=variant.version, variant=variant.id, file=file.name
            )
            found[file.name] = self._bytes(declared.READ_VARIANT_FILE, request)
            if hashlib.sha256(found[file.name]).hexdigest() != file.digest:
                raise Corrupt(f"The file {file.name!r} of {variant.name!r} is another than was made.")
        return found

    def certify(self, variant: str, **seen: Any) -> Variant:
        return self._call(declared.CERTIFY_VARIANT, declared.CertifyVariant(**self._of(variant), **seen))  # type: ignore[no-any-return]

    def finish(self, remarks: tuple[str, ...] = ()) -> Optimisation:
        request = planned.Finish(**self._named, job=self._job, remarks=remarks)
        return self._call(planned.FINISH_OPTIMISATION, request)  # type: ignore[no-any-return]

    def progress(self, share: float) -> None:
        with suppress(FalajError):  # how far it is, is not worth failing for
            report = Report(project=self.project, job=self._job, checkpoint=True, progress=min(1.0, share))
            self.client.call(REPORT_JOB, report)

    def _of(self, variant: str) -> dict[str, Any]:
        return {**self._named, "job": self._job, "variant": variant}

    def _bytes(self, operation: Any, request: Any) -> bytes:
        return patiently(lambda: b"".join(self.client.call(operation, request).chunks))

    def _call(self, operation: Any, request: Any) -> Any:
        return self.client.call(operation, request)
