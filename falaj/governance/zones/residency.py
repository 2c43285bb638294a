"""Where a project's bytes may be read: in its zones, as they are now. Where the caller sits is a rule of `builtin.cedar`."""

from typing import Final

from falaj.base.errors import Forbidden
from falaj.database.work import Context

RULE: Final = "residency.blob-zone"


class ProjectZones:
    """Refuses bytes that lie in a zone which the project no longer lists."""

    def permit_read(self, context: Context, zone: str) -> None:
        if context.project is None or zone not in {place.zone for place in context.project.places}:
            raise Forbidden(
                f"These bytes lie in the zone {zone!r}, which is not one of the project's zones any more.", rule=RULE
            )
