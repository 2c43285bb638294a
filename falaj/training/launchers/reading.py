"""What a script trains with, found in its text: it is parsed, never imported and never run."""

import ast
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from falaj.base.values import value
from falaj.training.launchers.errors import Unreadable

_MOST_FILES: Final = 200
# What an imported module is evidence of. The longest name that fits counts.
_MODULES: Final[Mapping[str, str]] = {
    "torch": "torch",
    "torch.distributed": "torch.distributed",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "falaj.training": "falaj.training",
    "accelerate": "torch.distributed",
    "deepspeed": "torch.distributed",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "mpi4py": "mpi4py",
    "horovod": "horovod",
    "pyspark": "pyspark",
    "ray": "ray",
    "sklearn": "scikit-learn",
    "lightgbm": "lightgbm",
    "xgboost": "xgboost",
    "catboost": "catboost",
}
# What a name that is used says beyond the module it is of.
_NAMES: Final[Mapping[str, str]] = {
    "DistributedDataParallel": "torch.distributed",
    "init_process_group": "torch.distributed",
    "fully_shard": "torch.distributed",
    "init_device_mesh": "torch.distributed",
    "MirroredStrategy": "MirroredStrategy",
    "MultiWorkerMirroredStrategy": "MultiWorkerMirroredStrategy",
}
_OF: Final[Mapping[str, str]] = {"MirroredStrategy": "tensorflow", "MultiWorkerMirroredStrategy": "tensorflow"}


@value
class Found:
    """`what` is in line `line` of `file`."""

    what: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.what} ({self.file}, line {self.line})"


@value
class Reading:
    """The first place of each kind of evidence."""

    script: str
    found: tuple[Found, ...] = ()

    def has(self, what: str) -> Found | None:
        return next((one for one in self.found if one.what == what), None)


def parsed(text: str, name: str) -> ast.Module:
    """Raises `Unreadable` with the line and the reason where Python could not run it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, name, "exec", dont_inherit=True)  # what ast lets through, such as `return` outside of a function
            return ast.parse(text, name)
    except SyntaxError as error:
        place = f"line {error.lineno}" if error.lineno else "it"
        raise Unreadable(f"{name} cannot be run: {place}: {error.msg}. Nothing was sent.") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"{name} cannot be run: {str(error) or type(error).__name__}. Nothing was sent.") from None


def text_of(script: Path) -> str:
    try:
        return script.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Unreadable(f"{script} is not UTF-8 text, as scripts are. Nothing was sent.") from None
    except OSError as error:
        raise Unreadable(f"{script} cannot be read: {error.strerror}.") from None


def read_text(text: str, name: str, *places: Path) -> Reading:
    """A script, and the modules which it imports from `places`, the folders that are its own."""
    found: dict[str, Found] = {}
    waiting, seen = [(name, parsed(text, name), places[0] if places else Path())], set[Path]()
    while waiting:
        file, tree, folder = waiting.pop(0)
        for what, line in _evidence(tree):
            found.setdefault(what, Found(what=what, file=file, line=line))
        for module, level in _imported(tree):
            near = (folder, *folder.parents)[level - 1 : level] if level else places
            path = next((path for place in near for path in _files(place, module) if path.is_file()), None)
            if path is not None and path not in seen and len(seen) < _MOST_FILES:
                seen.add(path)
                waiting += [(path.name, tree, path.parent) for tree in _understood(path)]
    known = [one for one in found.values() if one.what not in _OF or _OF[one.what] in found]
    return Reading(script=name, found=tuple(known))


def _evidence(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((what, node.lineno) for name in _names(node) for what in _evidence_of(name))
        if isinstance(node, ast.ImportFrom):
            yield from ((_NAMES[alias.name], node.lineno) for alias in node.names if alias.name in _NAMES)
        if isinstance(node, ast.Attribute) and node.attr in _NAMES:
            yield _NAMES[node.attr], node.lineno
        if isinstance(node, ast.Attribute) and ast.unparse(node).startswith("torch.distributed"):
            yield "torch.distributed", node.lineno


def _evidence_of(module: str) -> Iterator[str]:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if (name := ".".join(parts[:length])) in _MODULES:
            yield _MODULES[name]


def _names(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif node.module and not node.level:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Modules, and how many dots are before them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((name, 0) for name in _names(node))
        if isinstance(node, ast.ImportFrom) and node.level:
            yield from ((".".join(filter(None, (node.module, alias.name))), node.level) for alias in node.names)


def _files(place: Path, module: str) -> Iterator[Path]:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        path = place.joinpath(*parts[:length])
        yield path.with_suffix(".py")
        yield path / "__init__.py"


def _understood(path: Path) -> Iterator[ast.Module]:
    """One that cannot be parsed may never be imported: it says nothing."""
    try:
        yield parsed(path.read_text(encoding="utf-8"), path.name)
    except (OSError, UnicodeDecodeError, Unreadable):
        return
