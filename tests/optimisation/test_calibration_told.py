"""A certificate names the rows that a variant was calibrated with: as many as its step looked at, and none where none were."""

from dataclasses import replace
from typing import Any

import pytest

from falaj.client.optimising import job
from falaj.client.optimising.choosing import CALIBRATED
from falaj.client.optimising.comparing import Comparison
from falaj.client.optimising.job import Optimising, Subject
from falaj.client.optimising.rows import Parts, Rows, digest_of
from falaj.optimisation.making import openvino_quantising, ort_quantising
from falaj.optimisation.making.answers import read
from falaj.optimisation.making.running import answers
from tests.optimisation.making.models import conv, digits
from tests.optimisation.plans import made, plan
from tests.web.optimised import measures


class Platform:
    def __init__(self) -> None:
        self.told = dict[str, Any]()

    def certify(self, variant: str, **told: Any) -> None:
        self.told = told


@pytest.fixture(scope="module")
def subject() -> Subject:
    learnt, held_out, _ = digits()
    rows = Rows(inputs=held_out.inputs, labels=held_out.truth, slices={})
    said = answers(conv(), held_out)
    return Subject(
        model=conv(),
        parts=Parts(training=rows, selection=rows, held_out=rows),
        reading=read(said, ["scores"], {}, held_out.truth),
        training=learnt,
        selection=held_out,
        held_out=held_out,
        on_selection=said,
        on_held_out=said,
    )


@pytest.mark.parametrize(
    ("steps", "rows"),
    [
        (("int8",), 512),
        (("openvino-int8",), 300),
        (("prune:0.5", "int8", "openvino"), 512),
        (("fold",), 0),
        (("litert-int8",), 0),
    ],
)
def test_the_digest_is_of_the_rows_that_were_looked_at(
    monkeypatch: pytest.MonkeyPatch, subject: Subject, steps: tuple[str, ...], rows: int
) -> None:
    platform = Platform()
    monkeypatch.setattr(Optimising, "_measured", lambda *_: (measures(2.0), measures()))
    (variant,) = made("one")
    comparison = Comparison(subject.reading, subject.on_held_out, subject.held_out.truth)
    search = Optimising(platform, lambda: 0.0)  # type: ignore[arg-type]
    search._judged(plan(), subject, replace(variant, steps=steps), conv(), comparison)
    digest = digest_of(subject.training.part(0, rows)) if rows else ""
    assert (platform.told["calibration_rows"], platform.told["calibration"]) == (rows, digest)


def test_these_are_the_rows_that_the_steps_take() -> None:
    assert CALIBRATED == {"int8": ort_quantising._CALIBRATED_ON, "openvino-int8": openvino_quantising._CALIBRATED_ON}
    assert max(CALIBRATED.values()) <= job.rows.CALIBRATION_ROWS
