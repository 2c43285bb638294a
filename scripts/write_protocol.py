"""Turns the `.proto` files of serving into `falaj/serving/plane/grpc/descriptors.py`. Run it after changing one of them.

What is kept is the compiled description and not generated code: that would be bound to one version of protobuf, and would
register names in the process that the clients of other servers register too.
"""

import sys
import tempfile
from base64 import b85encode
from pathlib import Path

from grpc_tools import protoc

FOLDER = Path(__file__).parent.parent / "falaj/serving/plane/grpc"
SOURCES = ("inference.proto", "health.proto")
TARGET = FOLDER / "descriptors.py"
_WIDTH = 120


def compiled() -> str:
    """The text that the target should have."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "descriptors"
        failed = protoc.main(["protoc", f"--proto_path={FOLDER}", f"--descriptor_set_out={output}", *SOURCES])
        if failed:
            sys.exit("protoc could not read the files; what is wrong stands above")
        descriptors = output.read_bytes()
    encoded = b85encode(descriptors).decode()
    text = "\n".join(f'    b"{encoded[at : at + _WIDTH]}"' for at in range(0, len(encoded), _WIDTH))
    return (
        '"""Written by `scripts/write_protocol.py`: the messages of the `.proto` files here, as protoc describes them."""\n\n'
        "from base64 import b85decode\n"
        "from typing import Final\n\n"
        f"DESCRIPTORS: Final = b85decode(\n{text}\n)\n"
    )


if __name__ == "__main__":
    TARGET.write_text(compiled())
