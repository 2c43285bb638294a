"""What of pipelines needs the reader of the home page: runs that ask somebody, told to those who may decide."""

from collections.abc import Iterator, Mapping
from typing import Any

from falaj.base.values import value
from falaj.lifecycle.operations.pipelines import ListRuns


@value
class Question:
    title: str
    detail: str
    path: str


def asked(projects: list[str]) -> list[ListRuns]:
    return [ListRuns(project=project, state="running") for project in projects]


def questions(found: Mapping[ListRuns, Any]) -> Iterator[Question]:
    for request, answer in found.items():
        for run in answer.items:
            if run.asking:
                yield Question(
                    title=f"{run.pipeline} asks: {run.asking}",
                    detail=f"In {request.project}. The run waits until somebody decides.",
                    path=f"/projects/{request.project}/pipeline-runs/{run.id}",
                )
