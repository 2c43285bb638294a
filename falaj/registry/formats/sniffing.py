"""Telling what kind of file it is by its bytes; its name decides only where bytes cannot."""

import re
import struct
import zipfile
from enum import StrEnum

from falaj.registry.formats import litert, openvino
from falaj.registry.formats.content import Content, ContentFile, Malformed
from falaj.registry.formats.onnx import looks_like_onnx

HEAD = 4096


class Kind(StrEnum):
    """What a file is, in words that follow `is`."""

    ONNX = "an ONNX model"
    OPENVINO = "an OpenVINO IR"
    LITERT = "a LiteRT model"
    LIGHTGBM = "a LightGBM model"
    XGBOOST = "an XGBoost model"
    PICKLE = "a pickle"
    TORCH = "a PyTorch archive with a pickle in it"
    TORCH_PROGRAM = "a PyTorch program (pt2)"
    SKOPS = "a skops file"
    KERAS = "a Keras model"
    HDF5 = "an HDF5 file"
    SAVED_MODEL = "a TensorFlow SavedModel"
    CATBOOST = "a CatBoost model"
    SAFETENSORS = "a safetensors file"
    GGUF = "a GGUF file"
    COMPRESSED = "a compressed file"
    OTHER = "a file of a kind that is not served"


_MARKS = {
    b"\x89HDF\r\n\x1a\n": Kind.HDF5,
    b"CBM1": Kind.CATBOOST,
    b"GGUF": Kind.GGUF,
    b"tree\nversion=": Kind.LIGHTGBM,
    # joblib writes pickles through all of these
    b"\x1f\x8b": Kind.COMPRESSED,
    b"BZh": Kind.COMPRESSED,
    b"\xfd7zXZ\x00": Kind.COMPRESSED,
    b"\x04\x22\x4d\x18": Kind.COMPRESSED,
    b"\x28\xb5\x2f\xfd": Kind.COMPRESSED,
    b"\x78\x01": Kind.COMPRESSED,
    b"\x78\x9c": Kind.COMPRESSED,
    b"\x78\xda": Kind.COMPRESSED,
    b"\x5d\x00\x00": Kind.COMPRESSED,
}
_PICKLE_NAMES = (".pkl", ".pickle", ".joblib", ".cloudpickle", ".dill")
# Protocol 2 and later begin with a mark; 0 and 1 with what they build: an object, a list or a dict.
_PICKLE = re.compile(rb"\x80[\x02-\x05]|c(?:copy_reg|__builtin__|builtins|numpy|sklearn)[\w.]*\n|\([dl]p\d+\n|[\]}]q\x00")
# JSON, or Universal Binary JSON
_XGBOOST = re.compile(rb"\s*\{\s*\"(?:learner\"\s*:\s*\{|version\"\s*:\s*\[)|\{(?:L\0{7}|[iU])\x07(?:learner\{|version\[)")


def kind_of(content: Content) -> Kind:
    """Never raises for what the file holds."""
    head = content.head(HEAD)
    name = content.name.rpartition("/")[2].lower()
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_archive(content)
    if _PICKLE.match(head) or name.endswith(_PICKLE_NAMES):
        return Kind.PICKLE
    for mark, kind in _MARKS.items():
        if head.startswith(mark):
            return kind
    if head[4:8] == litert.IDENTIFIER:
        return Kind.LITERT
    if _XGBOOST.match(head):
        return Kind.XGBOOST
    if openvino.is_ir(head):
        return Kind.OPENVINO
    if _is_safetensors(head, content.size):
        return Kind.SAFETENSORS
    if name == "saved_model.pb":
        return Kind.SAVED_MODEL
    return Kind.ONNX if name.endswith(".onnx") or _is_onnx(content, head) else Kind.OTHER


def _kind_of_archive(content: Content) -> Kind:
    try:
        with zipfile.ZipFile(ContentFile(content)) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
    except (zipfile.BadZipFile, Malformed, NotImplementedError, OSError, ValueError, struct.error):
        return Kind.COMPRESSED
    if "data.pkl" in names:
        return Kind.TORCH
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return Kind.TORCH_PROGRAM
    if "model.weights.h5" in names:
        return Kind.KERAS
    return Kind.SKOPS if "schema.json" in names else Kind.COMPRESSED


def _is_safetensors(head: bytes, size: int) -> bool:
    length = int.from_bytes(head[:8], "little")
    return 2 <= length <= size - 8 and head[8:10] in (b'{"', b"{}")


def _is_onnx(content: Content, head: bytes) -> bool:
    """Protobuf has no mark: a model begins with its version, and only reading shows whether the rest follows."""
    return re.match(rb"\x08[\x03-\x1f][\x12\x1a\x22\x28\x32\x3a]", head) is not None and looks_like_onnx(content)
