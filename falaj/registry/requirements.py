"""What a model says it needs: packages out of `requirements.txt`, `conda.yaml` and `python_env.yaml`, as they stand there."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.registry.yaml_texts import LARGEST, read_yaml

REQUIREMENTS: Final = ("requirements.txt", "conda.yaml", "python_env.yaml")  # relative to the model's folder
MOST_LINES = 10_000
LONGEST_LINE = 2000
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"(===?|~=|!=|<=?|>=?)\s*([A-Za-z0-9.*+!_-]+)")
_EGG = re.compile(r"[#&]egg=([A-Za-z0-9._-]+)")


@value
class Package:
    """`version` is empty where none is pinned; then `wanted` says what is: `>=2,<3`, or an address it comes from."""

    ecosystem: Literal["pypi", "conda"]
    name: str
    version: str
    wanted: str
    source: str


@value
class Needs:
    """`unread` names the lines and files that say something else than a package."""

    packages: tuple[Package, ...]
    python: str
    unread: tuple[str, ...]


def read_needs(files: Mapping[str, bytes]) -> Needs:
    """Never raises for what the files hold."""
    found = _Found()
    if (content := files.get("requirements.txt")) is not None:
        found.read_text("requirements.txt", content)
    for name in ("conda.yaml", "python_env.yaml"):
        if (content := files.get(name)) is not None:
            found.read_yaml(name, content)
    pinned = {(one.ecosystem, one.name) for one in found.packages.values() if one.version}
    kept = [one for one in found.packages.values() if one.version or (one.ecosystem, one.name) not in pinned]
    return Needs(
        packages=tuple(sorted(kept, key=lambda one: (one.ecosystem, one.name, one.version, one.wanted))),
        python=found.python,
        unread=tuple(found.unread),
    )


class _Found:
    def __init__(self) -> None:
        self.packages: dict[tuple[str, str, str, str], Package] = {}
        self.python = ""
        self.unread: list[str] = []

    def read_text(self, name: str, content: bytes) -> None:
        try:
            text = content.decode() if len(content) <= LARGEST else None
        except UnicodeError:
            text = None
        if text is None:
            self.unread.append(name)
            return
        for number, line in _logical_lines(text):
            self._requirement(line, name, f"{name}:{number}")

    def read_yaml(self, name: str, content: bytes) -> None:
        try:
            document = read_yaml(content, name)
        except Invalid:
            document = None
        if not isinstance(document, dict):
            self.unread.append(name)
            return
        if name == "conda.yaml":
            self._conda(document.get("dependencies"), name)
            return
        self._python(document.get("python"))
        for part in ("build_dependencies", "dependencies"):
            self._pip(document.get(part), name, part)

    def _conda(self, dependencies: Any, name: str) -> None:
        for number, given in _items(dependencies):
            if isinstance(given, dict):
                self._pip(given.get("pip"), name, "pip")
                continue
            spec = given.strip().rpartition("::")[2] if isinstance(given, str) else ""
            if (match := _NAME.match(spec)) is None:
                self.unread.append(f"{name}:dependencies[{number}]")
                continue
            version, wanted = _conda_version(spec[match.end() :].strip())
            if match[0] == "python":
                self._python(version)
            else:
                self._add("conda", match[0].lower(), version, wanted, name)

    def _pip(self, requirements: Any, name: str, part: str) -> None:
        for number, given in _items(requirements):
            line = _uncommented(given) if isinstance(given, str) else ""
            self._requirement(line, name, f"{name}:{part}[{number}]")

    def _requirement(self, line: str, name: str, where: str) -> None:
        """Options are passed over, and lines that cannot be read are named by their place: both may hold passwords."""
        if line.startswith("-") and not line.startswith(("-e", "--editable")):
            return
        found = _parsed(re.split(r"\s--hash[= ]", line, maxsplit=1)[0])
        if found is None:
            self.unread.append(where)
        else:
            self._add("pypi", *found, name)

    def _python(self, version: Any) -> None:
        if isinstance(version, str) and re.fullmatch(r"[A-Za-z0-9.+_-]{1,50}", version):
            self.python = self.python or version

    def _add(self, ecosystem: Literal["pypi", "conda"], name: str, version: str, wanted: str, source: str) -> None:
        key = (ecosystem, name, version, wanted)
        self.packages.setdefault(key, Package(ecosystem=ecosystem, name=name, version=version, wanted=wanted, source=source))


def _parsed(line: str) -> tuple[str, str, str] | None:
    """Name, pinned version and what else is wanted. PEP 508 as far as a bill needs it, and pip's addresses."""
    if "://" in line.partition("@")[0]:
        egg = _EGG.search(line)
        return (_normal(egg[1]), "", _address(line)) if egg else None
    if (match := _NAME.match(line)) is None:
        return None
    rest = line[match.end() :].lstrip()
    if rest.startswith("["):
        rest = rest.partition("]")[2].lstrip()
    if rest.startswith("@"):
        return _normal(match[0]), "", _address(rest[1:].split(";")[0].strip())
    versions = [one.strip() for one in rest.partition(";")[0].strip(" ()").split(",") if one.strip()]
    found = [_VERSION.fullmatch(one) for one in versions]
    if not all(found):
        return None
    if len(found) == 1 and found[0] and found[0][1] in ("==", "===") and "*" not in found[0][2]:
        return _normal(match[0]), found[0][2], ""
    return _normal(match[0]), "", ",".join(one[1] + one[2] for one in found if one)


def _conda_version(rest: str) -> tuple[str, str]:
    """`=1.2`, `==1.2` and `=1.2=build` pin, everything else asks for a range."""
    exact = re.match(r"={1,2}\s*([A-Za-z0-9.+!_-]+)(?:=|$)", rest)
    return (exact[1], "") if exact else ("", rest[:200])


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; those that end in a backslash go on in the next one."""
    begun, first = "", 0
    for number, line in enumerate(text.splitlines()[:MOST_LINES], start=1):
        first = first if begun else number
        if line.endswith("\\") and len(begun) < LONGEST_LINE:
            begun += line[:-1]
            continue
        if whole := _uncommented(begun + line):
            yield first, whole
        begun = ""
    if whole := _uncommented(begun):
        yield first, whole


def _uncommented(line: str) -> str:
    return re.sub(r"(^|\s)#.*", "", line[:LONGEST_LINE]).strip()


def _items(given: Any) -> Iterable[tuple[int, Any]]:
    return enumerate(given[:MOST_LINES]) if isinstance(given, list) else ()


def _normal(name: str) -> str:
    """PEP 503: `Foo._Bar` and `foo-bar` are one package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _address(url: str) -> str:
    """Without user, password, query and fragment: a bill of materials is shown to others."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    except ValueError:
        return ""
