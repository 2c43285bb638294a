"""Which operators a LiteRT (TensorFlow Lite) file brings that the runtime does not have, read from its flatbuffer."""

from typing import Final

from falaj.registry.formats.content import Content, Malformed

IDENTIFIER: Final = b"TFL3"
MOST_OPERATORS = 10_000
LONGEST = 1000
_CUSTOM = 32  # BuiltinOperator.CUSTOM
_BUILT_IN = ("TFLite_Detection_PostProcess",)  # named like a custom one, and part of every runtime


def custom_operators(content: Content) -> tuple[str, ...]:
    """Raises `Malformed` where it is no LiteRT model."""
    if content.size < 8 or content.at(4, 4) != IDENTIFIER:
        raise Malformed("it has not the mark TFL3")
    model = content.number(0, "I")
    codes = _field(content, model, 1)
    if codes is None:
        return ()
    vector = codes + content.number(codes, "I")
    count = content.number(vector, "I")
    if count > MOST_OPERATORS:
        raise Malformed(f"it has more than {MOST_OPERATORS} operators")
    entries = (vector + 4 + 4 * index for index in range(count))
    names = (_custom_name(content, entry + content.number(entry, "I")) for entry in entries)
    return tuple(sorted({name for name in names if name and name not in _BUILT_IN}))


def _custom_name(content: Content, operator: int) -> str:
    """Empty for an operator that the runtime has. Old files give the operator's number in a byte, newer ones in a word."""
    byte, word, name = (_field(content, operator, field) for field in (0, 3, 1))
    number = max(content.number(byte, "b") if byte else 0, content.number(word, "i") if word else 0)
    if number != _CUSTOM:
        return ""
    if name is None:
        return "without a name"
    text = name + content.number(name, "I")
    return content.at(text + 4, min(content.number(text, "I"), LONGEST)).decode(errors="replace")


def _field(content: Content, table: int, field: int) -> int | None:
    """Where a table keeps a field; None where it leaves it out."""
    layout = table - content.number(table, "i")
    if 4 + 2 * field >= content.number(layout, "H"):
        return None
    offset = content.number(layout + 4 + 2 * field, "H")
    return table + offset if offset else None
