"""How a page is declared: what it loads, which forms it offers, what one may fetch from it. `routes.py` does the rest."""

from collections.abc import Callable, Mapping
from typing import Any

from falaj.base.operation import Download, Operation, Record
from falaj.base.values import value
from falaj.web.bodies import Fields
from falaj.web.forms import request_from
from falaj.web.visits import Visit


@value
class Load:
    """An operation a page asks.

    `when`: whether the reader's standing promises an answer (see `standing.py`). Where it is refused all the same, the page
    is drawn without it; if it is `essential`, the refusal is the page's. A request that is None is not made. `each`: the
    request is a list of requests, and what was loaded is their answers by request; those that were not found are left out.
    `every`: what was loaded is all pages of a list as one.
    """

    operation: Operation[Any, Any]
    request: Callable[[Visit], Any]
    when: Callable[[Visit], bool] = lambda visit: True
    essential: bool = False
    each: bool = False
    every: bool = False


@value
class Form:
    """An operation a page submits.

    `then` says where to go when it is done; None, or nowhere, shows the page again with the result on it, which is how secrets
    are shown once. `beside`: the form has fields and shows its own mistakes; otherwise they are told at the head of the page.
    `told` names the outcome, where an operation has more than one and each has its own words in `DONE`. `request` makes the
    request where the form's fields are not the request's own. `before` does what has to be done first, by other operations, and
    says which fields the request is made of. `after` makes what is shown of the operation's result.
    """

    operation: Operation[Any, Any]
    then: Callable[[Visit, Any], str] | None = None
    beside: bool = False
    told: Callable[[Any], str] = lambda result: ""
    request: Callable[[Operation[Any, Any], Fields, dict[str, str]], Any] = request_from
    before: Callable[[Visit, Fields], Fields] = lambda visit, fields: fields
    after: Callable[[Visit, Any], Any] = lambda visit, result: result


@value
class Upload:
    """An operation that takes a file, sent as the bare body by the page's script."""

    operation: Operation[Any, Any]


@value
class Fetch:
    """An operation whose bytes the browser saves. `file` makes them of its result, where that is something else."""

    path: str
    operation: Operation[Any, Any]
    file: Callable[[Any], Download] = lambda result: result


@value
class Picture:
    """An operation whose bytes the page shows as a picture, where they are one: see `previews.py`."""

    path: str
    operation: Operation[Any, Any]


@value
class Forward:
    """An operation that knows where in the console to go on, as what stands behind a short link."""

    path: str
    operation: Operation[Any, Any]
    target: Callable[[Any], str]


@value
class Data:
    """An operation whose answer the page's script reads as JSON, under the reader's session and the same guards.

    Only plain reads: a script asks again and again, and nothing that leaves a trace should.
    """

    path: str
    operation: Operation[Any, Any]
    request: Callable[[Visit], Any]

    def __post_init__(self) -> None:
        if self.operation.record is not Record.PLAIN_READ:
            raise TypeError(f"{self.operation.name!r} leaves a trace, so no script may ask for it")


@value
class Page:
    """The first load is what the page stands for, and essential. `derive` computes from what was loaded.

    `about` names the fields of the query that say which thing the page is about, where its name is free text and so no part of
    a path; the page's forms carry them along.
    """

    path: str
    section: str
    template: str
    loads: Mapping[str, Load]
    forms: tuple[Form, ...] = ()
    upload: Upload | None = None
    fetches: tuple[Fetch, ...] = ()
    pictures: tuple[Picture, ...] = ()
    data: tuple[Data, ...] = ()
    forwards: tuple[Forward, ...] = ()
    about: tuple[str, ...] = ()
    derive: Callable[[Visit], Mapping[str, Any]] = lambda visit: {}

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return tuple(load.operation for load in self.loads.values())

    def form_path(self, operation: Operation[Any, Any]) -> str:
        """No name begins with a dash, so this meets no page."""
        return f"{self.path.rstrip('/')}/-/{operation.name}"
