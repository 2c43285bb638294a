"""Running a model of a checked format: one protocol, one file per engine."""

import os
import sys

# Falaj calls nobody. These two would, unless they are told before they are imported.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
