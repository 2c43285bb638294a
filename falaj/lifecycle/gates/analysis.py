"""What the job of a `static` gate runs where its source lies: bandit, and a no to all code that bandit does not read.

It travels as text, and stands on nothing but bandit. Its arguments are the digest of what `falaj train` sends along, which is
Falaj's own and not judged, and what the training ran: files, or modules as `-m NAME`.
"""

import hashlib
import json
import os
import subprocess  # nosec B404 - bandit is a program
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence

# Isolated, without the source's own settings and exemptions, and with nothing left out: bandit would not look into `a.git`.
BANDIT = ("-I", "-m", "bandit", "-q", "-r", ".", "-f", "json", "--severity-level", "medium", "--ignore-nosec")
ALL_OF_IT = ("--ini", os.devnull, "-x", "")
COMPILED = (".pyc", ".pyo", ".pyd", ".so", ".dll", ".dylib", ".exe")
OTHERS = (".pyw", ".pth", ".pyz", ".whl", ".egg", ".jar", ".ipynb", ".sh", ".bash")
STARTS = (b"#!", b"\x7fELF", b"MZ")
COMPANIONS = ".falaj"


def main(own: str, programs: Sequence[str]) -> int:
    told = subprocess.run([sys.executable, *BANDIT, *ALL_OF_IT], stdout=subprocess.PIPE)  # nosec B603
    found = json.loads(told.stdout)
    judged = [one for one in found["results"] if not one["filename"].startswith(f"./{COMPANIONS}/") or not is_own(own)]
    lines = [f"{one['filename']}:{one['line_number']}: {one['issue_text']}" for one in judged]
    lines += [f"{one['filename']}: cannot be read ({one['reason']})" for one in found["errors"]]
    read = {os.path.realpath(name) for name in found["metrics"] if name != "_totals"}
    lines += [f"{name}: is code that bandit does not read" for name in files(".") if is_unread_code(name, read)]
    lines += [f"{one}: was run, and is no Python file of the source" for one in programs if not read & set(places_of(one))]
    if not read:
        lines.append("There is no Python file in the source: nothing was looked at.")
    print(*lines, sep="\n")
    return int(bool(lines) or told.returncode not in (0, 1))  # 1: something was found


def files(root: str) -> Iterator[str]:
    return (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)  # noqa: PTH118


def is_unread_code(name: str, read: set[str]) -> bool:
    if os.path.realpath(name) in read:
        return False
    if name.lower().endswith((".py", *COMPILED, *OTHERS)):
        return True
    with open(name, "rb") as file:
        return file.read(4).startswith(STARTS) or (zipfile.is_zipfile(file) and has_python(name))


def has_python(name: str) -> bool:
    """An archive is one by its content: Python takes modules out of it whatever it is called."""
    try:
        with zipfile.ZipFile(name) as archive:
            return any(one.lower().endswith((".py", ".pyc")) for one in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return True


def places_of(program: str) -> Iterator[str]:
    """Where it would be."""
    if program.startswith("-m "):
        place = program.removeprefix("-m ").replace(".", "/")
        return (os.path.realpath(one) for one in (f"{place}.py", f"{place}/__main__.py"))
    return (os.path.realpath(one) for one in (program, f"{program}/__main__.py"))


def is_own(digest: str) -> bool:
    there = {}
    for name in files(COMPANIONS):
        with open(name, "rb") as file:
            there[name] = file.read()
    return digest_of(there) == digest


def digest_of(there: Mapping[str, bytes]) -> str:
    told = "".join(f"{name} {hashlib.sha256(there[name]).hexdigest()}\n" for name in sorted(there))
    return hashlib.sha256(told.encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
