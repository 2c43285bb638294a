"""TensorFlow's models: Keras' files (`.keras`, HDF5) and SavedModel folders, asked by tensors and answering by names."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from falaj.runtimes.sandboxed.originals import HERE, OfTensors, Unusable, unpickled

_SAVED = "saved_model.pb"
_OWN_OBJECTS = ("global_custom_objects.cloudpickle", "custom_objects.cloudpickle")  # the second wins


class Network(OfTensors):
    """Its tensors are what the model itself says, where it does: signatures have double precision for whatever numpy held."""

    @property
    def takes(self) -> list[dict[str, Any]]:
        own = {one["name"]: one for one in self._own()}
        if self.told and all(one["name"] in own for one in self.told):
            return [own[one["name"]] for one in self.told]
        if own and len(self.told) in (0, len(own)):
            return list(own.values())
        return [one | {"name": one["name"] or _numbered("input", number)} for number, one in enumerate(self.told)]

    def _own(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def outputs(self, given: Sequence[Any]) -> dict[str, Any]:
        """TensorFlow's tensors, also while they are traced."""
        raise NotImplementedError

    def answers(self, asked: Any) -> dict[str, Any]:
        import tensorflow as tf

        takes = self.takes
        kinds = [one["dtype"] for one in takes] if len(takes) == len(asked) else [array.dtype for array in asked]
        given = [tf.convert_to_tensor(np.asarray(array, dtype=kind)) for array, kind in zip(asked, kinds, strict=True)]
        return {name: np.asarray(one) for name, one in self.outputs(given).items()}


class KerasModel(Network):
    def _own(self) -> list[dict[str, Any]]:
        by_key = getattr(self.model, "input", None)
        inputs = by_key if isinstance(by_key, dict) else {one.name: one for one in getattr(self.model, "inputs", None) or []}
        return [_tensor(name, one.dtype, one.shape) for name, one in inputs.items()]

    def outputs(self, given: Sequence[Any]) -> dict[str, Any]:
        by_name = isinstance(getattr(self.model, "input", None), dict) or len(given) > 1
        asked = dict(zip(self.inputs, given, strict=True)) if by_name else given[0]
        said = self.model(asked, training=False)
        if isinstance(said, dict):
            return {str(name): one for name, one in said.items()}
        several = list(said) if isinstance(said, list | tuple) else [said]
        return dict(zip(self._output_names(len(several)), several, strict=True))

    def _output_names(self, count: int) -> list[str]:
        names = list(getattr(self.model, "output_names", None) or [])
        if not names and count == 1 and getattr(self.model, "inputs", None):
            names = [self.model.layers[-1].name]  # of layers in a row, the last one's
        if len(set(names)) == count:
            return names
        return [_numbered("output", number) for number in range(count)]


class SavedModel(Network):
    """By the signature that TensorFlow's own server would take."""

    def __init__(self, model: Any, file: str, library: str) -> None:
        super().__init__(model, file, library)
        self.kind = f"TensorFlow's SavedModel ({file})"
        self._signature = model.signatures["serving_default"]

    def _own(self) -> list[dict[str, Any]]:
        takes = self._signature.structured_input_signature[1]
        return [_tensor(name, spec.dtype.name, spec.shape) for name, spec in takes.items()]

    def outputs(self, given: Sequence[Any]) -> dict[str, Any]:
        return dict(self._signature(**dict(zip(self.inputs, given, strict=True))))


def load(folder: str) -> Network:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    files = sorted((HERE / folder).rglob("*"))
    for file in files:
        if file.suffix in (".keras", ".h5", ".hdf5"):
            return KerasModel(_keras(file), file.name, "Keras")
    if not (saved := [file.parent for file in files if file.name == _SAVED]):
        raise Unusable("neither Keras' file nor a SavedModel is among the version's files: register it complete")
    import tensorflow as tf

    model = tf.saved_model.load(str(saved[0]))
    if "serving_default" not in model.signatures:
        raise Unusable("its SavedModel has no signature 'serving_default': save it with `signatures=`")
    return SavedModel(model, saved[0].name, "TensorFlow")


def _keras(file: Path) -> Any:
    import keras

    own: dict[str, Any] = {}
    for name in _OWN_OBJECTS:
        if (file.parent / name).exists():
            own |= unpickled(str((file.parent / name).relative_to(HERE)))
    # Lambda layers hold code, which this sandbox is for.
    more = {"safe_mode": False} if file.suffix == ".keras" else {}
    return keras.models.load_model(file, custom_objects=own, compile=False, **more)


def _tensor(name: str, dtype: Any, shape: Any) -> dict[str, Any]:
    kind = {"string": "object"}.get(str(dtype), str(dtype))
    return {"name": name, "dtype": kind, "shape": [-1, *(-1 if length is None else int(length) for length in list(shape)[1:])]}


def _numbered(word: str, number: int) -> str:
    return f"{word}_{number}" if number else word
