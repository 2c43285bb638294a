"""The pieces that chapters are made of, in the console's own classes. Everything is escaped."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from markupsafe import Markup, escape

from falaj.base.clock import Moment
from falaj.lifecycle.operations.stories import Chapter, Story, Thing
from falaj.web.drawing.svg import element
from falaj.web.rendering import time_tag

# The address of a thing's page, empty where it has none: in a file that is sent on, nothing has.
Links: TypeAlias = Callable[[Thing], str]
# The address of a leaf's proof, by its id, for those who may ask for it.
Leaves: TypeAlias = Callable[[str], str]
Row: TypeAlias = Sequence[Markup | str]


def chapter(title: str, *content: Markup, id: str, note: str = "") -> Markup:
    head = element("h2", title, id=id)
    said = element("p", note) if note else Markup("")
    return element("section", element("div", head, said, class_="card-head"), *content, class_="card", aria_labelledby=id)


def body(*content: Markup | str) -> Markup:
    return element("div", *content, class_="card-body flow")


def nothing(story: Story, words: str, *chapters: Chapter) -> Markup:
    """Where a chapter is empty: `words`, or else that its reader may not see it, which is something else."""
    hidden = any(one.chapter in chapters for one in story.hidden)
    return body(element("p", "This chapter is not visible to its reader; see above." if hidden else words, class_="soft"))


def paragraph(*words: Markup | str, class_: str | None = None) -> Markup:
    return element("p", *words, class_=class_)


def facts(pairs: Iterable[tuple[str, Markup | str]]) -> Markup:
    """Those that there are."""
    told = Markup("").join(element("dt", name) + element("dd", what) for name, what in pairs if what)
    return element("dl", told, class_="facts small")


def table(heads: Sequence[str], rows: Iterable[Row], *, caption: str = "", class_: str | None = None) -> Markup:
    """The first column names the row. A head that ends with `#` is over numbers."""
    names = [head.removesuffix("#") for head in heads]
    kinds = ["number" if head.endswith("#") else None for head in heads]
    said = element("caption", caption, class_="visually-hidden") if caption else Markup("")
    columns = zip(names, kinds, strict=True)
    head = element("thead", element("tr", *(element("th", name, scope="col", class_=kind) for name, kind in columns)))
    drawn = []
    for first, *others in rows:
        cells = zip(others, names[1:], kinds[1:], strict=True)
        told = (element("td", cell, data_label=name, class_=kind) for cell, name, kind in cells)
        drawn.append(element("tr", element("th", first, scope="row"), *told))
    return element("div", element("table", said, head, element("tbody", *drawn), class_=class_), class_="table-wrap")


def badge(words: str, tone: str = "") -> Markup:
    return element("span", words, class_=f"badge {tone}".strip())


def outcome(words: str, tone: str) -> Markup:
    return element("span", words, class_=f"outcome {tone}")


def digest(text: str) -> Markup:
    return element("span", text, class_="hash") if text else Markup("")


def own(text: str) -> Markup:
    """What people called something: it may be written from right to left."""
    return element("bdi", text)


def named(text: str, thing: Thing, links: Links) -> Markup:
    address = links(thing)
    return element("a", own(text), href=address) if address else own(text)


def sub(*words: Markup | str) -> Markup:
    return element("span", *words, class_="sub")


def at(moment: Moment | None) -> Markup:
    return escape("-") if moment is None else time_tag(moment)


def joined(parts: Iterable[Markup | str], between: str = ", ") -> Markup:
    return escape(between).join(escape(part) for part in parts)
