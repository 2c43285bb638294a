"""What a command is given: the way to the platform, and the way to print, for people or for programs."""

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import typer
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from falaj.app.home import Home
from falaj.base.errors import Invalid, Unauthenticated
from falaj.base.operation import Group, Operation, Req, Res
from falaj.base.values import ID_PATTERN, NAME_PATTERN, Text
from falaj.cli.deferred import Deferred
from falaj.cli.layout import Layout, fields, shown
from falaj.cli.places import Access, find_access, home_of
from falaj.cli.transfers import STANDARD
from falaj.registry.operations.words import AliasName, AliasNameOrNone, ModelName, ModelNameOrNone
from falaj.wire.wording import in_words

if TYPE_CHECKING:
    from falaj.client import http
else:
    http = Deferred("falaj.client.http")


def _pattern(kind: Any) -> str:
    """What a declared kind of text is held against."""
    return str(next(mark.pattern for mark in kind.__metadata__ if isinstance(mark, Text)))


# Patterns in words that people use.
WORDS = {
    NAME_PATTERN: "write small letters, digits, '.', '_' and '-', at most 100, beginning with a letter or a digit",
    ID_PATTERN: "an id has 32 hexadecimal digits",
    _pattern(AliasName): "an alias has letters, digits, '_' and '-' only",
    _pattern(AliasNameOrNone): "an alias has letters, digits, '_' and '-' only",
    _pattern(ModelName): "a registered model's name has neither '/' nor ':'; a version is a word of its own",
    _pattern(ModelNameOrNone): "a registered model's name has neither '/' nor ':'",
}
Render: TypeAlias = Callable[[Layout, Any], None]


class Terminal:
    """One run of one command."""

    def __init__(self, *, home: Path | None, as_json: bool) -> None:
        self.as_json = as_json
        self.given_home = home
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @property
    def home(self) -> Home:
        return home_of(self.given_home)

    @cached_property
    def access(self) -> Access:
        return find_access(self.given_home)

    @cached_property
    def client(self) -> "http.Client":
        return self.client_at(self.access)

    def client_at(self, access: Access, *, patience: float = 60.0) -> "http.Client":
        return self._opened.enter_context(http.Client(access.url, access.token, verify=access.trust(), timeout=patience))

    def run(self, operation: Operation[Req, Res], request: Req, render: Render = fields) -> Res:
        """Call the operation and show its result; the whole of most commands."""
        result = self.call(operation, request)
        self.show(result, render)
        return result

    def call(
        self,
        operation: Operation[Req, Res],
        request: Req,
        *,
        chunks: Iterable[bytes] | None = None,
        retry: bool = True,
        patience: float | None = None,
    ) -> Res:
        """Call the operation. `patience` is for what may take longer than a minute."""
        if self.access.token is None and operation.permission.group is not Group.PUBLIC:
            raise Unauthenticated(f"You are not signed in at {self.access.url}.")
        client = self.client if patience is None else self.client_at(self.access, patience=patience)
        return client.call(operation, checked(operation.request, request), chunks=chunks, retry=retry)

    def show(self, result: Any, render: Render = fields) -> None:
        """Print a value: one JSON document, or what `render` makes of it."""
        if self.as_json:
            self.print_json(as_document(result))
        else:
            render(Layout(), result)
        sys.stdout.flush()

    def told(self, document: Any, words: str, file: str = "") -> None:
        """Say what was done. Where the data itself went to standard output, nothing may be mixed into it."""
        if file == STANDARD:
            self.say(words)
        elif self.as_json:
            self.print_json(document)
        else:
            Layout().line(words)

    def print_json(self, document: Any) -> None:
        """What is no number is spelled as text, for JSON has no word for it."""
        spelled = json.loads(to_json(document, inf_nan_mode="strings"))
        text = json.dumps(spelled, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
        # What a terminal would obey stands in texts alone, where JSON may spell any letter out.
        odd = (letter for letter in set(text) if not letter.isprintable() and letter != "\n")
        print(text.translate({ord(letter): json.dumps(letter)[1:-1] for letter in odd}))

    def say(self, text: str) -> None:
        """A word to the person; programs read standard output and are not disturbed by it."""
        print(shown(text), file=sys.stderr)

    def confirm(self, question: str, yes: bool) -> None:
        """Ask before what cannot be undone."""
        if yes:
            return
        if not sys.stdin.isatty():
            raise Invalid(f"{question} Say --yes to do it.")
        typer.confirm(shown(question), abort=True, err=True)


def read_text(file: str) -> str:
    """A small text file that the person named; `-` is standard input."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Invalid(f"{file} is not UTF-8 text.") from None


def as_document(result: Any) -> Any:
    """A value as JSON."""
    return TypeAdapter(type(result)).dump_python(result, mode="json")


def checked(kind: type[Req], request: Req) -> Req:
    """Hold a request against its declaration before it leaves, so that what was mistyped is told by its own name."""
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_json(adapter.dump_json(request, warnings=False))
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        name = ".".join(str(part) for part in first["loc"])
        words = in_words(first)
        usual = first["msg"] if words is None else f"it {words}"
        expected = WORDS.get(first.get("ctx", {}).get("pattern", ""), usual)
        raise Invalid(f"{first['input']!r} does not do for {name}: {expected}.") from None
