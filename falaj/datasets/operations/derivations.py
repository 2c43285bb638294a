"""What a version was made of, where it was made of others: so that the same is not made twice."""

import hashlib
import json
from typing import Annotated, Literal

from falaj.base.values import Items, Message, Name, Personal, Text, value
from falaj.datasets.operations.words import DatasetRef

MOST_INPUTS = 50
Kind = Literal["sql", "python", "training-set"]
CodeDigest = Annotated[str, Text(pattern=r"^[0-9a-f]{64}$", longest=64, says="must be a SHA-256 in 64 hexadecimal digits")]
Inputs = Annotated[tuple[DatasetRef, ...], Items(most=MOST_INPUTS)]


@value
class Input(Message):
    """A version that was read. `digest` is that of its content, `relation` what it was read for."""

    dataset: Name
    version: int
    digest: str
    relation: str = "derived"

    @property
    def reference(self) -> str:
        return f"{self.dataset}@{self.version}"


@value
class Derivation(Message):
    """`digest` is over the kind, the code and the content of all `inputs`, in their order: versions with the same one are the
    same. `code` is SQL, or which function, as far as it is short enough to be shown."""

    kind: Kind
    code: Annotated[str, Personal()]
    digest: str
    inputs: tuple[Input, ...]


@value
class FunctionUsed(Message):
    """That the rows of a write are what a Python function made of `inputs`. `code` is the digest of its text and of what it ran
    with, `function` what it is called."""

    code: CodeDigest
    function: Annotated[str, Text(shortest=1, longest=200)]
    inputs: Annotated[tuple[DatasetRef, ...], Items(least=1, most=MOST_INPUTS)]
    job: Annotated[str, Text(pattern=r"^([0-9a-f]{32})?$", longest=32)] = ""


def code_digest(source: str, function: str, lock: str) -> str:
    """Of a function's text, and of what it runs with: what `FunctionUsed` calls its code."""
    return hashlib.sha256(json.dumps([source, function, lock], ensure_ascii=False).encode()).hexdigest()
