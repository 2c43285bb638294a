"""The packages that a training used: those of which something is imported, in the version that is. What a model needs is judged
by that, as for licences and known vulnerabilities."""

import re
import sys
from importlib import metadata
from typing import Final

FILE: Final = "requirements.txt"
_OWN: Final = "falaj"  # which is in no index, so that no list of licences or vulnerabilities has it


def imported() -> str:
    """As requirements, each pinned: the same text wherever the same is imported."""
    tops, files = {name.partition(".")[0] for name in sys.modules}, _files_loaded()
    found = dict[str, str]()
    for top, names in metadata.packages_distributions().items():
        for name in set(names) if top in tops else ():
            if len(set(names)) == 1 or _is_loaded(name, files):
                found[re.sub(r"[-_.]+", "-", name).lower()] = metadata.version(name)
    return "".join(f"{name}=={version}\n" for name, version in sorted(found.items()) if name != _OWN)


def _files_loaded() -> set[str]:
    return {file for module in tuple(sys.modules.values()) if (file := getattr(module, "__file__", None))}


def _is_loaded(name: str, files: set[str]) -> bool:
    """Where several packages share a folder, such as `google`."""
    one = metadata.distribution(name)
    return any(str(one.locate_file(file)) in files for file in one.files or ())
