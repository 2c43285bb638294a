"""The few pieces of SVG that all drawings are made of. Everything that comes from outside is escaped here."""

from typing import Any, Final

from markupsafe import Markup, escape

# Wide enough for nearly every text of that many characters in the console's fonts at 12 pixels.
CHARACTER: Final = 6.9


def element(name: str, *content: Markup | str, **attributes: Any) -> Markup:
    """`class_` and `text_anchor` become `class` and `text-anchor`; an attribute that is None is left out."""
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), number(text) if isinstance(text, float) else text)
        for key, text in attributes.items()
        if text is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, written, Markup("").join(escape(part) for part in content))


def picture(*content: Markup, width: float, height: float, label: str = "", class_: str = "") -> Markup:
    """Without a label the picture is hidden from screen readers: then what it shows is also said in words beside it."""
    box = f"0 0 {number(width)} {number(height)}"
    shared: dict[str, Any] = {"class_": class_ or None, "viewBox": box, "width": width, "height": height, "focusable": "false"}
    if label:
        return element("svg", *content, **shared, role="img", aria_label=label)
    return element("svg", *content, **shared, aria_hidden="true")


def number(value: float) -> str:
    """As short as a hundredth of a pixel allows."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if value else "0"


def shortened(text: str, width: float) -> str:
    most = max(1, int(width / CHARACTER))
    return text if len(text) <= most else f"{text[: most - 1]}…"
