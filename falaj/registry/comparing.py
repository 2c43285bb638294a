"""What differs between two versions. Pure: it is given both."""

import json
from collections.abc import Mapping, Sequence

from falaj.registry.operations.versions import FileChange, MetricChange, TextChange, Version, VersionFile


def file_changes(before: Sequence[VersionFile], after: Sequence[VersionFile]) -> tuple[FileChange, ...]:
    old, new = {file.name: file for file in before}, {file.name: file for file in after}
    changes = []
    for name in sorted(old.keys() | new.keys()):
        here, there = old.get(name), new.get(name)
        if here is not None and there is not None and here.digest == there.digest:
            continue
        changes.append(
            FileChange(
                name=name,
                change="added" if here is None else "removed" if there is None else "changed",
                size=here.size if here else None,
                other_size=there.size if there else None,
            )
        )
    return tuple(changes)


def text_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[TextChange, ...]:
    keys = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key), after.get(key)) for key in keys)
    return tuple(TextChange(key=key, value=old, other=new) for key, old, new in pairs if old != new)


def metric_changes(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[MetricChange, ...]:
    """Two that are not numbers are the same."""
    keys = sorted(before.keys() | after.keys())
    pairs = ((key, before.get(key), after.get(key)) for key in keys)
    return tuple(MetricChange(key=key, value=old, other=new) for key, old, new in pairs if repr(old) != repr(new))


def signature_of(version: Version) -> dict[str, str]:
    """What callers depend on: each input and output by its name, the flavours, the runtime."""
    facts = {"runtime": version.runtime, "flavors": ", ".join(version.flavors)}
    for part, text in (("inputs", version.inputs), ("outputs", version.outputs)):
        for position, field in enumerate(json.loads(text) if text else ()):
            name = field.pop("name", "") or str(position)
            facts[f"{part}.{name}"] = json.dumps(field, sort_keys=True)
    return {key: text for key, text in facts.items() if text}
