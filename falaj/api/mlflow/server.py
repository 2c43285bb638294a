"""What clients ask a server before they use it. Says nothing that is not the same for everybody."""

from typing import Final

from falaj.api.mlflow.adapters import Answer, Document, Visit, perform
from falaj.api.mlflow.bodies import Empty

# The release of MLflow whose clients this face is held against.
VERSION: Final = "3.17.2"
INFO: Final[Document] = {
    "store_type": None,
    "workspaces_enabled": True,
    "trace_archival_enabled": False,
    "multipart_uploads_enabled": True,
    "multipart_downloads_enabled": False,
    "presigned_upload_run_id_supported": False,
    "presigned_upload_model_id_supported": False,
    "features_enabled": {"gateway": False},
}


def _info(_visit: Visit, _sent: Empty) -> Document:
    return INFO


def _version(_visit: Visit, _sent: Empty) -> Answer:
    return Answer(text=VERSION)


def _health(_visit: Visit, _sent: Empty) -> Answer:
    return Answer(text="OK")


def _console(visit: Visit, _sent: Empty) -> Answer:
    """`/mlflow/PROJECT/`, where the links that clients print begin; the console's script reads the rest of them."""
    return Answer(status=303, headers=(("location", f"/projects/{visit.project}"),))


_INFO: Final = perform("mlflow.server-info", Empty, _info)
ROUTES: Final = (
    ("GET", "/api/3.0/mlflow/server-info", _INFO),
    ("GET", "/api/3.0/mlflow/server-features", _INFO),
    ("GET", "/", perform("mlflow.console", Empty, _console)),
    ("GET", "/version", perform("mlflow.version", Empty, _version)),
    ("GET", "/health", perform("mlflow.health", Empty, _health)),
)
