"""One request under way: which project it means, and its calls through the dispatcher in the caller's name."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from falaj.api.mlflow.projects import Choices
from falaj.base.operation import Operation
from falaj.governance.projects.operations import LIST_PROJECTS
from falaj.operations.dispatcher import Call, Dispatcher

Req = TypeVar("Req")
Res = TypeVar("Res")


class Visiting:
    """A `Visit`. Belongs to one worker thread. `said` gives the project that was named, empty where none was, and refuses a
    name that cannot be one: what asks for no project does not mind."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        choices: Choices,
        call: Call,
        *,
        said: Callable[[], str],
        path: tuple[str, ...],
        address: str,
    ) -> None:
        self._dispatcher = dispatcher
        self._choices = choices
        self._call = call
        self._name_project = said
        self.path = path
        self.address = address
        self.chunks: Iterator[bytes] | None = None

    @cached_property
    def _said(self) -> str:
        return self._name_project()

    @property
    def may_be_recalled(self) -> bool:
        """Whether somebody asks, and `project` answers without asking the platform."""
        return self._call.credentials is not None and bool(self._said or self._choices.known(self._call.credentials))

    @cached_property
    def project(self) -> str:
        return self._said or self._choices.choose(self._call.credentials, lambda wish: self.call(LIST_PROJECTS, wish))

    def call(self, operation: Operation[Req, Res], request: Req, content: bytes = b"") -> Res:
        """`content` is the request as it came, where this call is all that it says."""
        call = replace(self._call, content=content) if content else self._call
        if operation.takes_bytes:
            call = Call(credentials=call.credentials, request_id=call.request_id, chunks=self.chunks)
        return self._dispatcher.call(operation, request, call)

    def shortcut(self, operation: Operation[Req, Res], request: Req, content: bytes) -> Future[Res] | None:
        """`call` without a thread to wait in; None where that is not possible. `content` is the request as it came."""
        return self._dispatcher.shortcut(operation, request, replace(self._call, content=content))
