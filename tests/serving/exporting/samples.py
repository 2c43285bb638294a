"""Endpoints of every kind of model, as a bundle describes them."""

import hashlib
from typing import Any

from falaj.runtimes.engine import ModelFiles
from falaj.serving.exporting.models import Exported, exported
from falaj.serving.states import Arm, Endpoint, File, Revision


def endpoint_of(files: ModelFiles, name: str = "fraud", **options: Any) -> Endpoint:
    listed = tuple(
        File(name=file, size=len(content), digest=hashlib.sha256(content).hexdigest())
        for file, content in files.contents.items()
    )
    revision = Revision(
        id="1" * 32, number=3, model="card-fraud", version=7, runtime=files.runtime, file=files.main, files=listed
    )
    return Endpoint(
        id="2" * 32,
        project="3" * 32,
        project_name="bank",
        name=name,
        arms=(Arm(revision=3, share=10_000),),
        revisions=(revision,),
        **options,
    )


def sample(files: ModelFiles, name: str = "fraud", **options: Any) -> Exported:
    return exported(endpoint_of(files, name, **options), files.contents)
