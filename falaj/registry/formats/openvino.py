"""What an OpenVINO IR file needs: the version it is written in, and operators that the runtime does not have."""

import re
from typing import Final

from falaj.base.values import value
from falaj.registry.formats.content import PAGE, Content, Malformed

OLDEST: Final = 10
_ROOT = re.compile(rb"<net\b[^>]*?\bversion=\"(\d{1,9})\"")
_LAYER = re.compile(rb"<layer\b[^>]{0,8000}>")
_TYPE = re.compile(rb"\btype=\"([^\"]{1,200})\"")
_SET = re.compile(rb"\bversion=\"([^\"]{1,200})\"")


@value
class IrModel:
    """`custom` are operators of sets that are not the runtime's own, as `set:name`."""

    version: int
    custom: tuple[str, ...]


def is_ir(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"<?xml", b"<net")) and b"<net" in head


def read_ir(content: Content) -> IrModel:
    """Raises `Malformed` where it is no IR."""
    text = content.at(0, content.size) if content.size > PAGE else content.head(PAGE)
    if re.search(rb"<!(?:DOCTYPE|ENTITY)", text):
        raise Malformed("it has a document type of its own, which no IR has")
    if (root := _ROOT.search(text)) is None:
        raise Malformed("its first element is not `net` with a version")
    custom = set()
    for layer in _LAYER.findall(text):
        kind, operators = _TYPE.search(layer), _SET.search(layer)
        if kind and operators and not re.fullmatch(rb"opset\d+", operators[1]):
            custom.add(f"{operators[1].decode(errors='replace')}:{kind[1].decode(errors='replace')}")
    return IrModel(version=int(root[1]), custom=tuple(sorted(custom)))
