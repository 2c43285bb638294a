"""The program of an optimisation's job: `python -m falaj.client.optimising.job OPTIMISATION`.

1. Ask what was decided, fetch the model and the rows, and find out how its answers are to be read. 2. Tell the platform what
the model is, how fast it is here, and which candidates there are. 3. Make and measure one candidate after the other, and tell
each. 4. Have the best judged on the rows that were held out. Killed anywhere, the next try goes on with what is not settled.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import numpy as np

from falaj.base.errors import Conflict, FalajError, Invalid, PermanentError
from falaj.base.values import value
from falaj.client.datasets import dataset
from falaj.client.environments import client_of_environment, project_of_environment
from falaj.client.loaded_models import LoadedModel
from falaj.client.optimising import choosing, pacing, rows
from falaj.client.optimising.comparing import Comparison
from falaj.client.optimising.figures import measured, of_original, profile_told
from falaj.client.optimising.reporting import Platform
from falaj.client.optimising.steps import names_there
from falaj.client.optimising.workshop import Order, Workshop
from falaj.optimisation.making import answers, calibrating, candidates
from falaj.optimisation.making.meanings import meaning_of
from falaj.optimisation.making.profiles import profile_of
from falaj.optimisation.making.running import Device
from falaj.optimisation.making.running import answers as asked
from falaj.optimisation.making.values import Array, CannotBeMade, Made, Sample
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.optimisation.operations.variants import Variant
from falaj.optimisation.operations.words import Host as HostTold
from falaj.optimisation.operations.words import Measures
from falaj.runtimes.engine import Labelled, ModelFiles
from falaj.runtimes.hosts import Host, kind_of, shown, this_host

_LEAST: Final = 20.0  # seconds for one candidate
_FOR_JUDGING: Final = 0.2  # of the time, kept for the end
_WORTH_A_TRY: Final = 0.05  # as likely to be shown as that: a refusal makes it harder for all other searches
_CLEARLY_FASTER: Final = 1.2  # times as fast as what is certified, where as many are as were wanted
_ABANDONED: Final = "The search was abandoned: nothing more is made for it, and what was certified stays."

_NO_GPU: Final = (
    "The job found no GPU: everything was measured on the processor, and programs for GPUs were not made. `falaj optimise "
    "--gpus 1` asks for one."
)


def main() -> int:
    try:
        with client_of_environment() as client:
            platform = Platform(client, project_of_environment(""), sys.argv[1])
            return Optimising(platform, time.monotonic).run()
    except FalajError as error:
        print(f"falaj: {error}", file=sys.stderr, flush=True)
        return 1


@value
class Subject:
    """The original with its rows, and what it says to them."""

    model: Made
    parts: rows.Parts
    reading: answers.Reading
    training: Sample
    selection: Sample
    held_out: Sample
    on_selection: tuple[Array, ...]
    on_held_out: tuple[Array, ...]

    @property
    def calibration(self) -> Sample:
        return self.training.part(0, rows.CALIBRATION_ROWS)


class Optimising:
    def __init__(self, platform: Platform, clock: Callable[[], float]) -> None:
        self._platform, self._clock, self._began = platform, clock, clock()
        self._threads = len(os.sched_getaffinity(0))
        self._earlier = 0.0  # seconds that earlier tries took
        self._remarks: list[str] = []
        self._last_word = ""
        self._hopeless: list[Variant] = []
        self._device: Device = "cpu"

    def run(self) -> int:
        plan = self._platform.shown()
        named = f"{plan.model} v{plan.version}"
        if plan.state != "open":
            _say(_ABANDONED if plan.state == "abandoned" else f"{named} was optimised before.")
            return 0
        try:
            return self._search(plan, named)
        except Conflict:
            if self._platform.shown().state != "abandoned":
                raise
        _say(_ABANDONED)
        return 0

    def _search(self, plan: Optimisation, named: str) -> int:
        host = this_host()
        self._device = "gpu" if plan.target == "gpu" and host.gpu else "cpu"
        if plan.target == "gpu" and not host.gpu:
            self._remarks.append(_NO_GPU)
        subject = self._subject(plan)
        try:
            plan = self._describe(plan, subject, host)
        except CannotBeMade as error:  # of the original: the next try could not measure it either
            return self._cannot_measure(named, error)
        self._earlier = plan.spent
        with Workshop(self._order(plan, subject)) as workshop:
            made = self._make_all(plan, subject, host, workshop)
        certified = self._certify(plan, subject, made)
        done = self._platform.finish(self._closing(certified))
        best = next((one for one in done.variants if one.best), None)
        _say(f"{named}: {_told(best)}" if best else f"{named}: no variant was certified.")
        return 0

    def _cannot_measure(self, named: str, error: CannotBeMade) -> int:
        told = f"{named} cannot be compared with anything: {error}."
        self._platform.finish((*self._remarks, told))
        _say(told)
        return 0

    # The original

    def _subject(self, plan: Optimisation) -> Subject:
        contents = self._platform.contents(plan.files)
        model = Made(runtime=plan.runtime, file=plan.file, files=contents)
        named = tuple(column.name for column in plan.columns)
        files = ModelFiles(runtime=plan.runtime, main=plan.file, contents=contents, columns=named)
        loaded = LoadedModel(plan.model, files, self._threads)
        try:
            if not loaded.engine.batches:
                raise Invalid(
                    f"{plan.model} v{plan.version} takes one row at a time, or answers a row by the others beside it: export "
                    "it with a dynamic batch axis."
                )
            parts = self._parts(plan, loaded)
            pace = pacing.pace_of(loaded.engine.run, parts.training, plan.seconds, self._clock)
            few = parts.training.taken(np.arange(min(pace.read_on, parts.training.count)))
            others = _labels_of(parts)
            said = [*loaded.engine.run(few.inputs)]
            known = loaded.engine.labels if isinstance(loaded.engine, Labelled) else {}
            names = [spec.name for spec in loaded.engine.outputs]
            reading = answers.read(said, names, known, few.labels, others, meaning_of(model))
        finally:
            loaded.close()
        _say(reading.words)
        parts, fewer = pacing.afforded(parts, plan, pace)
        if fewer:
            self._remarks.append(fewer)
            _say(fewer)
        samples = [one.sample(_truth(reading, one)) for one in (parts.training, parts.selection, parts.held_out)]
        return Subject(
            model=model,
            parts=parts,
            reading=reading,
            training=samples[0],
            selection=samples[1],
            held_out=samples[2],
            on_selection=tuple(asked(model, samples[1], threads=self._threads)),
            on_held_out=tuple(asked(model, samples[2], threads=self._threads)),
        )

    def _parts(self, plan: Optimisation, loaded: LoadedModel) -> rows.Parts:
        def read(name: str, version: int) -> rows.Rows:
            source = dataset(f"{name}@{version}", project=self._platform.project, client=self._platform.client)
            return rows.read(source, loaded, label=plan.label, slices=plan.slices)

        on = read(plan.on.dataset, plan.on.version)
        apart = plan.held_out.digest == plan.on.digest
        held_out = None if apart else read(plan.held_out.dataset, plan.held_out.version)
        parts = rows.parted(on, held_out, int(plan.on.digest[:8], 16))
        there = held_out.count if held_out is not None else on.count - parts.training.count - parts.selection.count
        if gone := there - parts.held_out.count:
            self._remarks.append(
                f"{gone:,} of the {there:,} rows of {plan.held_out.dataset} that are held out were left out: rows that hold "
                "the same are learnt from."
            )
        counts = (parts.training.count, parts.selection.count, parts.held_out.count)
        _say("{:,} rows to learn from, {:,} to compare on, {:,} held out.".format(*counts))
        return parts

    def _order(self, plan: Optimisation, subject: Subject) -> Order:
        student = self._platform.contents(plan.student, student=True).get(plan.student_file, b"") if plan.student else b""
        return Order(
            model=subject.model,
            reading=subject.reading,
            calibration=subject.calibration,
            training=subject.training,
            selection=subject.selection,
            original=subject.on_selection,
            allowed=plan.limits.max_drop,
            seed=int(plan.on.digest[8:16], 16),
            student=student,
            threads=self._threads,
            device=self._device,
        )

    # What is going to be tried

    def _describe(self, plan: Optimisation, subject: Subject, host: Host) -> Optimisation:
        if plan.profile is not None:  # an earlier try told it
            return plan
        profile = profile_of(subject.model)
        findings = calibrating.examined(subject.calibration, subject.held_out)
        unfit = " ".join(one.says for one in findings if one.refuses)
        available = names_there(student=bool(plan.student))
        found = candidates.planned(profile, target=plan.target, host=host, available=available)
        proposals = choosing.narrowed(found, plan.only, unfit)
        comparison = Comparison(subject.reading, subject.on_selection, subject.selection.truth)
        baseline = of_original(subject.model, subject.selection, **self._prices(plan), device=self._device)
        judging = Comparison(subject.reading, subject.on_held_out, subject.held_out.truth)
        kind = "of the answers are right" if subject.reading.task == "classes" else "is the mean error"
        score = f"{comparison.score:.2%}" if subject.reading.task == "classes" else f"{comparison.score:.4g}"
        _say(f"On {shown(host)}:")
        _say(f"the original does {baseline.rows_per_s:,.0f} rows/s, {baseline.p50_ms:.3g} ms a row; {score} {kind}.")
        counts = (subject.training.rows, subject.selection.rows, subject.held_out.rows)
        return self._platform.describe(
            host=_told_of(host),
            profile=profile_told(profile),
            baseline=baseline,
            task=subject.reading.task,
            rows=counts,
            remarks=(*self._remarks, *judging.doubts(), *(one.says for one in findings)),
            candidates=proposals,
        )

    # Making

    def _make_all(self, plan: Optimisation, subject: Subject, host: Host, workshop: Workshop) -> dict[str, Made]:
        made = {}
        waiting = [one for one in plan.variants if one.state in ("planned", "begun")]
        for number, variant in enumerate(waiting):
            left = plan.seconds * (1 - _FOR_JUDGING) - self._spent()
            within = max(_LEAST, left / max(1, min(3, len(waiting) - number)))
            if not self._platform.begin(variant.name):
                continue
            if left <= 0:
                self._platform.drop(variant.name, f"The {plan.seconds} seconds that the search may take were over.")
                continue
            if worse := choosing.no_better(variant.steps, self._hopeless):
                self._platform.drop(variant.name, worse)
                _say(f"{variant.name}: {worse}")
                continue
            try:
                one = self._made(plan, subject, variant, workshop, within)
            except CannotBeMade as error:  # it could be made and asked, and not be measured
                self._platform.drop(variant.name, str(error))
                one = None
            if one is not None:
                made[variant.name] = one
            self._platform.progress((number + 1) / (len(waiting) + 1))
        return made

    def _made(self, plan: Optimisation, subject: Subject, variant: Variant, workshop: Workshop, within: float) -> Made | None:
        started = self._clock()
        outcome = workshop.make(variant.steps, within, max(1.5 * _LEAST + 30, plan.seconds - self._spent()))
        took = f"{self._clock() - started:.1f} s"
        if outcome.made is None:
            self._platform.drop(variant.name, outcome.problem)
            _say(f"{variant.name}: {outcome.problem} ({took})")
            return None
        if hopeless := choosing.hopeless(
            outcome.drop, variant.steps, plan.limits, subject.selection.rows, subject.reading.task
        ):
            self._hopeless.append(variant)
            self._platform.drop(variant.name, hopeless, notes=outcome.made.notes)
            _say(f"{variant.name}: {hopeless} ({took})")
            return None
        measures, _ = self._measured(plan, subject, outcome.made, outcome.drop, outcome.changes)
        self._platform.keep(variant.name, outcome.made, measures)
        _say(
            f"{variant.name}: {measures.times:.2f} times as fast, drop {outcome.drop * 100:+.2f} %, "
            f"{measures.size / 1024:,.0f} KiB ({took})"
        )
        return outcome.made

    # Judging

    def _certify(self, plan: Optimisation, subject: Subject, made: dict[str, Made]) -> int:
        """The best first, until as many are certified as were wanted and nothing clearly faster is left, or time is over; one
        is judged in any case."""
        now = self._platform.shown()
        known = [one for one in now.variants if one.state == "certified"]
        certified, fastest = len(known), max((_times(one) for one in known), default=0.0)
        refused, rows = now.refused_before, subject.held_out.rows
        comparison = Comparison(subject.reading, subject.on_held_out, subject.held_out.truth)
        for number, variant in enumerate(choosing.in_order(now, now)):
            late = self._spent() > plan.seconds and (certified or number)
            if late:
                break
            if number and rows < (needed := choosing.needed(now, refused)):
                self._last_word = (
                    f"{refused} variants were refused on the same {rows:,} rows. Of those that follow nothing can be shown: "
                    f"that takes {needed:,} rows, or a larger margin."
                )
                break
            faster = _times(variant) >= _CLEARLY_FASTER * fastest and choosing.hope(variant, now) >= _WORTH_A_TRY
            if certified >= plan.certify and not faster:
                continue
            try:
                one = made.get(variant.name) or self._again(variant)
                judged = self._judged(plan, subject, variant, one, comparison)
            except (PermanentError, ValueError) as error:  # of this one; the next may be judged
                with suppress(Conflict):  # somebody deleted it meanwhile
                    self._platform.drop(variant.name, f"It could not be judged: {error}")
                continue
            refused += judged.state == "refused"
            if judged.state == "certified":
                certified, fastest = certified + 1, max(fastest, _times(judged))
            _say(f"{variant.name}: {'certified' if judged.state == 'certified' else judged.reason}")
        return certified

    def _again(self, variant: Variant) -> Made:
        contents = self._platform.variant_contents(variant)
        settings = {one.name: one.value for one in variant.settings}
        return Made(runtime=variant.runtime, file=variant.file, files=contents, settings=settings, notes=variant.notes)

    def _judged(self, plan: Optimisation, subject: Subject, variant: Variant, made: Made, comparison: Comparison) -> Variant:
        said, host = asked(made, subject.held_out, threads=self._threads, device=self._device), this_host()
        seen = comparison.seen(said, subject.parts.held_out.slices)
        drop, changes = (variant.measures.drop, variant.measures.changes) if variant.measures is not None else (0.0, -1.0)
        ours, theirs = self._measured(plan, subject, made, drop, changes)
        calibration = subject.calibration.part(0, choosing.calibrated_on(variant.steps))
        return self._platform.certify(
            variant.name,
            groups=seen.groups,
            classes=seen.classes,
            agreement=seen.agreement,
            guessed=comparison.guessed,
            apart=seen.apart,
            calibration_error=seen.calibration_error,
            original_calibration_error=comparison.original_calibration_error,
            measures=ours,
            original_measures=theirs,
            host=_told_of(host),
            calibration=rows.digest_of(calibration) if calibration.rows else "",
            calibration_rows=calibration.rows,
            read_as=subject.reading.words,
        )

    def _measured(
        self, plan: Optimisation, subject: Subject, made: Made, drop: float, changes: float
    ) -> tuple[Measures, Measures]:
        memory, prices = plan.baseline.memory if plan.baseline is not None else 0, self._prices(plan)
        rows, device = subject.selection, self._device
        return measured(made, subject.model, rows, drop=drop, changes=changes, memory=memory, device=device, **prices)

    def _prices(self, plan: Optimisation) -> dict[str, float]:
        return {"price": plan.price, "gpu_price": plan.gpu_price}

    def _closing(self, certified: int) -> tuple[str, ...]:
        many = f"{certified} variant{'' if certified == 1 else 's'}"
        told = f"The search took {self._spent():.0f} seconds and certified {many}."
        return (self._last_word, told) if self._last_word else (told,)

    def _spent(self) -> float:
        return self._earlier + self._clock() - self._began


def _truth(reading: answers.Reading, part: rows.Rows) -> Array | None:
    return None if part.labels is None else reading.truth_of(part.labels)


def _labels_of(parts: rows.Parts) -> Array | None:
    """Of all rows: a class may be too rare for the first of them."""
    found = [one.labels for one in (parts.training, parts.selection, parts.held_out) if one.labels is not None]
    return np.concatenate(found) if found else None


def _told_of(host: Host) -> HostTold:
    libraries = tuple(f"{name} {version}" for name, version in host.libraries.items())
    return HostTold(kind=kind_of(host), shown=shown(host), libraries=libraries)


def _told(best: Variant) -> str:
    return f"{best.name} is certified and {_times(best):.1f} times as fast."


def _times(one: Variant) -> float:
    return one.measures.times if one.measures is not None else 1.0


def _say(words: str) -> None:
    print(words, flush=True)


if __name__ == "__main__":
    sys.exit(main())
