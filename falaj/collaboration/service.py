"""All services of this room, for whoever wires them."""

from collections.abc import Iterable
from typing import Any

from falaj.base.operation import Operation
from falaj.collaboration.activity import ActivityService
from falaj.collaboration.comments import CommentService
from falaj.collaboration.links import LinkService
from falaj.collaboration.notices import NoticeService
from falaj.collaboration.owners import OwnerService
from falaj.collaboration.reviews import ReviewService
from falaj.collaboration.things import Things
from falaj.database.binding import Bound


class CollaborationService:
    def __init__(self, things: Things, operations: Iterable[Operation[Any, Any]]) -> None:
        """`operations` are all that the platform has."""
        self._services = (
            OwnerService(things),
            CommentService(things),
            ReviewService(things),
            NoticeService(things),
            LinkService(),
            ActivityService(things, operations),
        )

    def bindings(self) -> list[Bound]:
        return [bound for service in self._services for bound in service.bindings()]
