"""LightGBM models in LightGBM's own text format.

Predictions go through its C interface: for one row the Python one takes longer than the hundred trees.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, Final

import lightgbm
import numpy as np

from falaj.runtimes.checking import make_check, solid
from falaj.runtimes.engine import Array, ModelFiles, Placement, TensorSpec
from falaj.runtimes.errors import DeviceMissing, EngineFailed, NotLoadable
from falaj.runtimes.lightgbm_files import checked

# What the C interface calls them.
_FLOAT64: Final = 1
_ROW_MAJOR: Final = 1
_PREDICT: Final = 0
_ALL_TREES: Final = -1


def load(files: ModelFiles, placement: Placement) -> "LightgbmEngine":
    if placement.device != "cpu":
        raise DeviceMissing("LightGBM predicts on the CPU only")
    try:
        text = files.contents[files.main].decode()
    except UnicodeDecodeError:
        raise NotLoadable(f"{files.main} is not a LightGBM model: those are text, saved by booster.save_model()") from None
    text, features = checked(text)
    try:
        booster = lightgbm.Booster(model_str=text)
        if booster.num_feature() != features:
            raise NotLoadable(f"LightGBM reads {booster.num_feature()} features in {files.main}, the file says {features}")
        return LightgbmEngine(booster, threads=placement.threads or 1)
    except (lightgbm.basic.LightGBMError, ValueError, TypeError, KeyError) as error:
        raise NotLoadable(f"LightGBM cannot load {files.main}: {error}") from error


class LightgbmEngine:
    """Also `Columned`: LightGBM keeps the names of its features."""

    device = "cpu"
    batches = True

    def __init__(self, booster: Any, *, threads: int) -> None:
        self._booster = booster
        self._features = booster.num_feature()
        self._classes = booster.num_model_per_iteration()
        self.columns: tuple[str, ...] = tuple(booster.feature_name())
        self.inputs = (TensorSpec(name="input", datatype="FP64", shape=(-1, self._features)),)
        answer = (-1,) if self._classes == 1 else (-1, self._classes)
        self.outputs = (TensorSpec(name="predict", datatype="FP64", shape=answer),)
        self._check = make_check(self.inputs, batches=True)
        library: Any = lightgbm.basic._LIB  # type: ignore[attr-defined]
        self._last_error = library.LGBM_GetLastError
        self._last_error.restype = ctypes.c_char_p
        # By index a function is not shared with LightGBM's own Python side: the types are ours alone.
        self._predict_one = library["LGBM_BoosterPredictForMatSingleRowFast"]
        self._predict_one.argtypes = [ctypes.c_void_p] * 4
        self._predict = library["LGBM_BoosterPredictForMat"]
        whole, pointer = ctypes.c_int, ctypes.c_void_p
        several: list[Any] = [pointer, pointer, whole, ctypes.c_int32, ctypes.c_int32, whole, whole, whole, whole]
        self._predict.argtypes = [*several, ctypes.c_char_p, pointer, pointer]
        self._free = library["LGBM_FastConfigFree"]
        self._free.argtypes = [ctypes.c_void_p]
        self._handle: Any = booster._handle
        self._settings = f"num_threads={threads}".encode()
        self._made = ctypes.c_int64()
        self._made_at = ctypes.addressof(self._made)
        self._one: Any = ctypes.c_void_p()
        start = library["LGBM_BoosterPredictForMatSingleRowFastInit"]
        start.argtypes = [pointer, whole, whole, whole, whole, ctypes.c_int32, ctypes.c_char_p, pointer]
        one = ctypes.byref(self._one)
        self._held(start(self._handle, _PREDICT, 0, _ALL_TREES, _FLOAT64, self._features, self._settings, one))

    def _held(self, outcome: int) -> None:
        if outcome:
            raise EngineFailed(f"LightGBM failed: {(self._last_error() or b'').decode(errors='replace')}")

    def run(self, arrays: Sequence[Array]) -> Sequence[Array]:
        self._check(arrays)
        if self._one is None:
            raise EngineFailed("the engine is closed")
        given = solid(arrays[0])
        rows = len(given)
        made = np.empty(rows * self._classes)
        given_at, to = given.ctypes.data, made.ctypes.data
        if rows == 1:
            outcome = self._predict_one(self._one, given_at, self._made_at, to)
        else:
            shape = (rows, self._features, _ROW_MAJOR)
            wanted = (_PREDICT, 0, _ALL_TREES, self._settings)
            outcome = self._predict(self._handle, given_at, _FLOAT64, *shape, *wanted, self._made_at, to)
        self._held(outcome)
        if self._made.value != len(made):
            raise EngineFailed(f"LightGBM gave {self._made.value} numbers where {len(made)} were expected")
        return (made if self._classes == 1 else made.reshape(rows, self._classes),)

    def close(self) -> None:
        if self._one is not None:
            self._free(self._one)
        self._one = self._handle = self._booster = None
