"""Classic models on CPUs: scikit-learn, LightGBM and XGBoost, cross-validated, early-stopped, told to the run, made ONNX.

`fit` and `tuned` are what a script calls. Names are fetched when first used: most need scikit-learn.
"""

from typing import Final

from falaj.base.fetching import fetching

_HOMES: Final = {
    "Exported": "exporting",
    "Fitted": "fitting",
    "NotEqual": "exporting",
    "export": "exporting",
    "fit": "fitting",
    "space_of": "spaces",
    "tuned": "tuning",
}
__all__ = tuple(_HOMES)
__getattr__ = fetching(__name__, _HOMES, extra="convert")
