"""Profiles without what somebody may not see. Needs no data library: the control plane does it as it shows them."""

from collections.abc import Collection, Mapping
from typing import Any, Final

_SEEN: Final = ("name", "type", "nulls", "distinct", "distinct_is_exact")


def shown_profile(profile: Mapping[str, Any], masked: Collection[str] = ()) -> dict[str, Any]:
    """A profile as it is shown: without the sketches, and of `masked` columns without any value."""
    columns = [
        {name: one for name, one in column.items() if name != "state" and (column["name"] not in masked or name in _SEEN)}
        for column in profile["columns"]
    ]
    return {**{name: one for name, one in profile.items() if name != "columns"}, "columns": columns}
