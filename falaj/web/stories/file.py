"""The story as one file to send on: nothing in it runs, nothing is fetched, and every proof is in it."""

from typing import Final

from markupsafe import Markup

from falaj.base.operation import Download
from falaj.lifecycle.operations.stories import Story
from falaj.web.assets import DIRECTORY
from falaj.web.drawing.svg import element
from falaj.web.rendering import time_tag, with_code
from falaj.web.reports.parts import document
from falaj.web.stories.chapters import chapters, hidden, line

_SHEETS: Final = ("console.css", "story.css")


def whole(story: Story) -> str:
    """As its reader may see it, in the console's own looks."""
    version = story.version
    title = f"{version.model} v{version.version}"
    head = element(
        "header",
        element("h1", element("bdi", title)),
        element("p", element("bdi", with_code(story.summary)), class_="story-summary"),
        element(
            "p", f"Project {story.project}; written ", time_tag(story.asked), " by what its reader may see.", class_="soft"
        ),
    )
    content = (head, hidden(story), line(story), chapters(story, _nowhere, _nowhere, whole=True))
    style = "\n".join((DIRECTORY / sheet).read_text() for sheet in _SHEETS)
    return document(title, style, element("main", Markup("").join(content), class_="main story story-file"))


def _nowhere(_what: object) -> str:
    return ""


def download(story: Story) -> Download:
    content = whole(story).encode()
    name = f"{story.version.model}-v{story.version.version}.html"
    return Download(chunks=iter((content,)), size=len(content), name=name, media_type="text/html")
