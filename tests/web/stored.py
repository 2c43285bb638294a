"""What tests of pages about datasets arrange: versions, checks, classes and feature views."""

from typing import Any

from falaj.datasets.operations import checks, classes, datasets, features, versions, writing
from falaj.tables.joining.views import Feature, Key
from tests.web.conftest import Site


def write(
    site: Site, content: bytes, dataset: str = "people", mode: Any = "append", project: str = "fraud"
) -> versions.Version:
    opened = site.call(writing.OPEN_WRITE, writing.OpenWrite(project=project, dataset=dataset, mode=mode, create=True))
    part = writing.WritePart(project=project, dataset=dataset, write=opened.id, piece=1)
    site.call(writing.WRITE_PART, part, data=content)
    done = writing.CommitWrite(project=project, dataset=dataset, write=opened.id, pieces=1)
    made: versions.Version = site.call(writing.COMMIT_WRITE, done)
    return made


def describe(site: Site, text: str, dataset: str = "people") -> None:
    request = datasets.DescribeDataset(project="fraud", dataset=dataset, description=text)
    site.call(datasets.DESCRIBE_DATASET, request)


def tag(site: Site, tag: str, version: str, dataset: str = "people") -> None:
    site.call(datasets.TAG_VERSION, datasets.TagVersion(project="fraud", dataset=dataset, tag=tag, version=version))


def classify(site: Site, dataset: str = "people", **kinds: Any) -> None:
    columns = tuple(classes.Classified(column=name, kind=kind) for name, kind in kinds.items())
    site.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project="fraud", dataset=dataset, columns=columns))


def declare(site: Site, *rules: checks.Check, dataset: str = "people") -> None:
    site.call(checks.SET_CHECKS, checks.SetChecks(project="fraud", dataset=dataset, checks=rules))


def view(site: Site, *made: Feature, name: str = "by-person", dataset: str = "people", **fields: Any) -> features.FeatureView:
    given = {"keys": (Key(column="id"),), "event": "at", **fields}
    request = features.ApplyView(project="fraud", view=name, dataset=dataset, features=made, **given)
    applied: features.FeatureView = site.call(features.APPLY_VIEW, request)
    return applied


def materialise(site: Site, name: str = "by-person") -> None:
    site.call(features.MATERIALISE, features.Materialise(project="fraud", view=name))


def training_set(site: Site, into: str, **fields: Any) -> None:
    site.call(features.MAKE_TRAINING_SET, features.MakeTrainingSet(project="fraud", into=into, **fields))
