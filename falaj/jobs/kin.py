"""Which jobs are alike: those of one project that do the same with the same are likely to take as long."""

import hashlib

from falaj.jobs.operations.jobs import Spec


def kin_of(project: str, spec: Spec) -> str:
    """By name, program and script; its arguments and files change from one try to the next."""
    script = [word for word in spec.command if not word.startswith("-")][:2]
    told = "\0".join([project, spec.name, spec.image, str(spec.tasks), repr(spec.resources), *script])
    return hashlib.sha256(told.encode()).hexdigest()
