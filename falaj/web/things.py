"""Where the page of a thing is that people talk about."""

from typing import Any
from urllib.parse import urlencode


def address(project: str, thing: Any) -> str:
    """Empty where it has none: it is gone, or of a kind without pages."""
    base = f"/projects/{project}"
    match thing.kind:
        case "experiment":
            return f"{base}/experiments/{thing.id}"
        case "run":
            return f"{base}/runs/{thing.id}"
        case "version":
            return f"{base}/versions/{thing.id}"
        case "model" if thing.label:
            return f"{base}/model?{urlencode({'model': thing.label})}"
        case _:
            return ""


def addresses(project: str, things: Any) -> dict[str, str]:
    """By kind and id, as templates ask for them."""
    return {f"{thing.kind} {thing.id}": address(project, thing) for thing in things if thing is not None and thing.label}
