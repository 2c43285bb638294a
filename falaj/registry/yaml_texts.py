"""Reading YAML that strangers wrote: every scalar as a text, no aliases, little depth, so that it can neither grow nor run."""

from typing import Any

from falaj.base.errors import Invalid

LARGEST = 1 << 20
DEEPEST = 20


def read_yaml(content: bytes, name: str) -> Any:
    """Dicts, lists and texts. Raises `Invalid` where it is larger, deeper or anything else than that."""
    import yaml  # slow to import, and needed only where a model is registered

    if len(content) > LARGEST:
        raise Invalid(f"{name} has {len(content)} bytes; at most {LARGEST} are read.")
    # The pure Python parser needs seconds for a megabyte. Its base loader makes no numbers, dates or objects of what it reads.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        text = content.decode()
        depth = 0
        for event in yaml.parse(text, Loader=loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                raise Invalid(f"{name} uses YAML aliases (*{str(event.anchor)[:50]}); write their values out.")
            if depth > DEEPEST:
                raise Invalid(f"{name} is nested more than {DEEPEST} levels deep.")
        reading = loader(text)
        try:
            return reading.get_single_data()
        finally:
            reading.dispose()
    except (yaml.YAMLError, UnicodeError, ValueError, RecursionError) as error:
        raise Invalid(f"{name} is not YAML: {str(error)[:300]}") from None
