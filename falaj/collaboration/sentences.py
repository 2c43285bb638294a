"""What somebody did, as a sentence without its subject: said here for what happens often, else made of the summary."""

import re
from typing import Any, Final

from falaj.base.operation import Operation

_SAID: Final = {
    "experiment.delete": "deleted an experiment",
    "run.log-inputs": "named the data of a run",
    "run.log-outputs": "named the models of a run",
    "run.delete": "deleted a run",
    "run.import": "imported a run",
    "logged-model.create": "began a model",
    "logged-model.finish": "finished a model",
    "artifact.put": "stored a file",
    "artifact.begin-upload": "began to store a large file",
    "artifact.finish-upload": "stored a large file",
    "artifact.abort-upload": "gave up storing a large file",
    "artifact.delete": "deleted files",
    "blob.delete": "dropped a blob",
    "blob.shred": "destroyed a blob",
    "policy.put": "put a policy in force",
    "version.create": "registered a version",
    "model.promote": "moved an alias",
    "model.rollback": "rolled an alias back",
    "version.stage": "moved a version to another stage",
    "approval.ask": "asked for the approval of a move",
    "approval.give": "approved a move",
    "approval.refuse": "refused a move",
    "approval.withdraw": "took back a move",
    "owner.set": "named the owner",
    "comment.add": "commented",
    "comment.edit": "changed a comment",
    "comment.delete": "deleted a comment",
    "comment.remove": "removed a comment",
    "review.request": "asked for a review",
    "review.answer": "answered a review",
    "review.withdraw": "withdrew a review",
    "link.create": "made a share link",
    "link.revoke": "revoked a share link",
}
_IRREGULAR: Final = {
    "begin": "began",
    "bring": "brought",
    "drop": "dropped",
    "forget": "forgot",
    "give": "gave",
    "hide": "hid",
    "let": "let",
    "make": "made",
    "put": "put",
    "say": "said",
    "set": "set",
    "shut": "shut",
    "stop": "stopped",
    "take": "took",
    "write": "wrote",
}
_AFTERTHOUGHT: Final = re.compile(r"[;:,]|\. |\.$")


def sentence(operation: Operation[Any, Any]) -> str:
    """`created an experiment`."""
    return _SAID.get(operation.name) or in_the_past(operation.summary)


def in_the_past(summary: str) -> str:
    """The main clause of a summary, which begins with its verb, as something that happened."""
    verb, _, rest = _AFTERTHOUGHT.split(summary, maxsplit=1)[0].partition(" ")
    verb = verb.lower()
    past = _IRREGULAR.get(verb) or re.sub(r"e$|(?<=[^aeiou])y$", lambda end: "i" if end[0] == "y" else "", verb) + "ed"
    return f"{past} {rest}".strip()
