"""Files of a run, a logged model or a version: a tree of folders out of a list of names, and what to show of one file."""

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from falaj.base.values import value
from falaj.web.previews import READ, Preview, preview
from falaj.web.visits import Visit


@value
class File:
    """`name` is the whole of it, `shown` its last part."""

    name: str
    shown: str
    size: int
    digest: str


@value
class Folder:
    shown: str
    folders: list["Folder"] = field(default_factory=list)
    files: list[File] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.files) + sum(folder.count for folder in self.folders)


def tree(entries: Iterable[Any]) -> Folder:
    """Folders and files in the order of their names; `entries` have a name, a size and a digest."""
    root = Folder(shown="")
    known: dict[str, Folder] = {"": root}
    for entry in sorted(entries, key=lambda entry: str(entry.name)):
        parent = ""
        *folders, last = entry.name.split("/")
        for part in folders:
            path = f"{parent}/{part}" if parent else part
            if path not in known:
                known[path] = Folder(shown=part)
                known[parent].folders.append(known[path])
            parent = path
        known[parent].files.append(File(name=entry.name, shown=last, size=entry.size, digest=entry.digest))
    return root


def first_bytes(visit: Visit, name: str) -> Preview | None:
    """What can be shown of a file that a load has begun to read; None where it was not loaded."""
    if (file := visit.loaded["file"]) is None:
        return None
    taken = b""
    for chunk in file.chunks:
        taken += chunk
        if len(taken) >= READ:
            break
    return preview(name, taken[:READ], more=len(taken) >= READ)
