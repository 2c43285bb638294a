"""What a step's function is made of: its file and the files of the folder that it imports, read as text and never run."""

import ast
import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path


def code_of(root: Path, file: Path, data: str = "") -> str:
    """The digest of the file and of all of the folder that it imports, at any remove, and of the `data` that it may read. The
    same files have the same digest, wherever the folder is."""
    made = hashlib.sha256(data.encode())
    for one in sorted(local_files(root, file)):
        content = one.read_bytes()
        made.update(f"{one.relative_to(root).as_posix()}\0{len(content)}\0".encode())
        made.update(content)
    return made.hexdigest()


def data_of(packed: bytes) -> str:
    """The digest of all files of a packed folder that are no Python: any of them may be read by what runs there."""
    made = hashlib.sha256()
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for entry in tar:
            if entry.isfile() and not entry.name.endswith(".py") and (file := tar.extractfile(entry)) is not None:
                made.update(f"{entry.name}\0{entry.size}\0".encode())
                made.update(file.read())
    return made.hexdigest()


def local_files(root: Path, file: Path) -> set[Path]:
    found, open_ = set[Path](), [file]
    while open_:
        if (one := open_.pop()) in found:
            continue
        found.add(one)
        open_ += _imported(root, file.parent, one)
    return found


def _imported(root: Path, beside: Path, file: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # it fails where it is run, if it is
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _files_of(name.name.split("."), root, beside)
        elif isinstance(node, ast.ImportFrom):
            parts = node.module.split(".") if node.module else []
            places = [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else [root, beside]
            for name in node.names:
                yield from _files_of([*parts, name.name], *places, root=root)


def _files_of(parts: list[str], *places: Path, root: Path | None = None) -> Iterator[Path]:
    """The modules that importing `a.b.c` runs, as far as they lie in the folder: packages on the way among them."""
    top = root or places[0]
    for place in places:
        for count in range(1, len(parts) + 1):
            at = place.joinpath(*parts[:count])
            for candidate in (at.with_suffix(".py"), at / "__init__.py"):
                if candidate.is_file() and candidate.is_relative_to(top):
                    yield candidate
        if (own := place / "__init__.py").is_file() and own.is_relative_to(top):
            yield own
