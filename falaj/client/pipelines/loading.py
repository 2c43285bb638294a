"""Loading a file with pipelines or steps from its folder, here to write it down and in a job to run it."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from falaj.base.errors import FalajError, Invalid


def loaded(root: Path, file: Path) -> ModuleType:
    """The file as the module that others of its folder import it as."""
    name = ".".join(file.relative_to(root).with_suffix("").parts)
    for place in (str(file.parent), str(root)):
        if place not in sys.path:
            sys.path.insert(0, place)
    known = sys.modules.get(name)
    if known is not None and getattr(known, "__file__", None) == str(file):
        return known
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Invalid(f"{file} is no file of Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def read_here(root: Path, file: Path) -> Iterator[ModuleType]:
    """To write a pipeline down. What was imported of the folder is forgotten afterwards: another may have the same names."""
    before, path = dict(sys.modules), list(sys.path)
    try:
        yield _told(root, file)
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if name not in before and _is_below(root, getattr(module, "__file__", None)):
                del sys.modules[name]


def _told(root: Path, file: Path) -> ModuleType:
    """Raises `Invalid` where it cannot be loaded, with its line."""
    if not file.is_file():
        raise Invalid(f"There is no file {file}.")
    try:
        return loaded(root, file)
    except FalajError:
        raise
    except ImportError as error:
        where = _line_of(error, root) or file.name
        missing = getattr(error, "name", "") or ""
        if missing and importlib.util.find_spec(missing.split(".")[0]) is None:
            raise Invalid(
                f"{where}: there is no module {missing!r} here. A pipeline is written down on this machine and its steps run "
                "elsewhere: import it inside the function of the step that needs it, and name it in that step's lock."
            ) from None
        raise Invalid(f"{where}: {error}.") from None
    except SyntaxError as error:
        raise Invalid(f"{Path(error.filename or file.name).name}, line {error.lineno}: {error.msg}.") from None
    except Exception as error:  # noqa: BLE001 - whatever users write may raise whatever
        raise Invalid(f"{_line_of(error, root) or file.name}: {type(error).__name__}: {error}") from None


def _line_of(error: BaseException, root: Path) -> str:
    """The last line of the folder's own files."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if _is_below(root, one.filename)]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else ""


def _is_below(root: Path, file: str | None) -> bool:
    return file is not None and Path(file).is_absolute() and Path(file).is_relative_to(root)
