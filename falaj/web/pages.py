"""How a page is declared: what it loads, which forms it offers, what one may fetch from it. `routes.py` does the rest."""

from collections.abc import Callable, Mapping
from typing import Any

from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.web.visits import Visit


@value
class Load:
    """An operation a page asks.

    `when`: whether the reader's standing promises an answer (see `standing.py`). Where it is refused all the same, the page
    is drawn without it; if it is `essential`, the refusal is the page's.
    """

    operation: Operation[Any, Any]
    request: Callable[[Visit], Any]
    when: Callable[[Visit], bool] = lambda visit: True
    essential: bool = False


@value
class Form:
    """An operation a page submits.

    `then` says where to go when it is done; None shows the page again with the result on it, which is how secrets are shown
    once. `beside`: the form has fields and shows its own mistakes; otherwise they are told at the head of the page.
    """

    operation: Operation[Any, Any]
    then: Callable[[Visit, Any], str] | None = None
    beside: bool = False


@value
class Upload:
    """An operation that takes a file, sent as the bare body by the page's script."""

    operation: Operation[Any, Any]


@value
class Fetch:
    """An operation whose bytes the browser saves."""

    path: str
    operation: Operation[Any, Any]


@value
class Page:
    """The first load is what the page stands for, and essential. `derive` computes from what was loaded."""

    path: str
    section: str
    template: str
    loads: Mapping[str, Load]
    forms: tuple[Form, ...] = ()
    upload: Upload | None = None
    fetches: tuple[Fetch, ...] = ()
    derive: Callable[[Visit], Mapping[str, Any]] = lambda visit: {}

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return tuple(load.operation for load in self.loads.values())

    def form_path(self, operation: Operation[Any, Any]) -> str:
        """No name begins with a dash, so this meets no page."""
        return f"{self.path.rstrip('/')}/-/{operation.name}"
