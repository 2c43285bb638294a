"""The two faces of the Open Inference Protocol, spoken plainly: what is sent and what comes back, as `inference.py` sees it.

Neither uses Falaj's own code for the protocol: REST is JSON over httpx, gRPC the messages that NVIDIA publishes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol, Self, TypeAlias

import grpc
import httpx
import numpy as np
from numpy.typing import NDArray
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from falaj.base.values import value

Array: TypeAlias = NDArray[Any]
Kind: TypeAlias = Literal["invalid", "unauthenticated", "forbidden", "missing", "other"]

DTYPES: Final[dict[str, Any]] = {
    **{f"{sign}INT{bits}": np.dtype(f"{sign}int{bits}".lower()) for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BOOL": np.dtype(np.bool_),
    "BYTES": np.dtype(np.object_),
}
# Where the elements of a datatype stand in gRPC's typed contents; FP16 has no place there.
CONTENTS: Final = {
    "BOOL": "bool_contents",
    **{f"INT{bits}": "int_contents" for bits in (8, 16, 32)},
    **{f"UINT{bits}": "uint_contents" for bits in (8, 16, 32)},
    "INT64": "int64_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
_BY_STATUS: Final[dict[int, Kind]] = {400: "invalid", 401: "unauthenticated", 403: "forbidden", 404: "missing"}
_BY_CODE: Final[dict[grpc.StatusCode, Kind]] = {
    grpc.StatusCode.INVALID_ARGUMENT: "invalid",
    grpc.StatusCode.UNAUTHENTICATED: "unauthenticated",
    grpc.StatusCode.PERMISSION_DENIED: "forbidden",
    grpc.StatusCode.NOT_FOUND: "missing",
}
_PATIENCE: Final = 30.0


class Refused(Exception):
    """What the server would not do. `said` is its own words."""

    def __init__(self, kind: Kind, said: str) -> None:
        super().__init__(f"{kind}: {said}")
        self.kind, self.said = kind, said


@value
class Tensor:
    """`data` need not fit `datatype` and `shape`: what is wrong is sent as well."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Array

    @classmethod
    def of(cls, name: str, datatype: str, data: Any) -> "Tensor":
        array = np.asarray(data, DTYPES[datatype])
        return cls(name=name, datatype=datatype, shape=array.shape, data=array)

    def raw(self) -> bytes:
        return bytes(serialize_byte_tensor(self.data).item()) if self.data.dtype == object else self.data.tobytes()


@value
class Asked:
    """`binary`: as raw bytes, both ways; else as JSON, or in gRPC's typed contents."""

    model: str
    inputs: Sequence[Tensor]
    version: str = ""
    id: str = ""
    outputs: Sequence[str] = ()
    parameters: Mapping[str, Any] | None = None
    tensor_parameters: Mapping[str, Any] | None = None  # of every input and of every output that is asked for
    binary: bool = False


@value
class Answered:
    model: str
    version: str
    id: str
    datatypes: dict[str, str]
    outputs: dict[str, Array]


@value
class ModelShown:
    """Tensors as name -> (datatype, shape)."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: dict[str, tuple[str, tuple[int, ...]]]
    outputs: dict[str, tuple[str, tuple[int, ...]]]


@value
class ServerShown:
    name: str
    version: str
    extensions: frozenset[str]


class Face(Protocol):
    """One way to speak to a server, with a token or without. What the server refuses is raised as `Refused`."""

    def __init__(self, url: str, token: str = "") -> None: ...  # nosec B107 - none, by default

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def health(self, word: Literal["live", "ready"]) -> bool: ...

    def server(self) -> ServerShown: ...

    def is_ready(self, model: str, version: str = "") -> bool: ...

    def described(self, model: str, version: str = "") -> ModelShown: ...

    def infer(self, asked: Asked) -> Answered: ...

    def index(self, *, ready: bool = False) -> list[tuple[str, str, str]]:
        """Name, version and state of each."""
        ...

    def manage(self, verb: Literal["load", "unload"], model: str) -> None: ...


class Rest:
    """Implements `Face` over REST. `http` is for what only REST can say."""

    def __init__(self, url: str, token: str = "") -> None:  # nosec B107 - none, by default
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=_PATIENCE, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def health(self, word: Literal["live", "ready"]) -> bool:
        return self.http.get(f"/v2/health/{word}").status_code == 200

    def server(self) -> ServerShown:
        said = _said(self.http.get("/v2"))
        return ServerShown(name=said["name"], version=said["version"], extensions=frozenset(said["extensions"]))

    def is_ready(self, model: str, version: str = "") -> bool:
        response = self.http.get(f"{_path(model, version)}/ready")
        if response.status_code == 503:
            return False
        _said(response)
        return True

    def described(self, model: str, version: str = "") -> ModelShown:
        said = _said(self.http.get(_path(model, version)))
        return ModelShown(
            name=said["name"],
            versions=tuple(said["versions"]),
            platform=said["platform"],
            inputs={one["name"]: (one["datatype"], tuple(one["shape"])) for one in said["inputs"]},
            outputs={one["name"]: (one["datatype"], tuple(one["shape"])) for one in said["outputs"]},
        )

    def infer(self, asked: Asked) -> Answered:
        document: dict[str, Any] = {"inputs": [self._input(one, asked) for one in asked.inputs]}
        if asked.id:
            document["id"] = asked.id
        if asked.outputs:
            document["outputs"] = [{"name": name, "parameters": dict(asked.tensor_parameters or {})} for name in asked.outputs]
        parameters = {**(asked.parameters or {}), **({"binary_data_output": True} if asked.binary else {})}
        if parameters:
            document["parameters"] = parameters
        sections = [one.raw() for one in asked.inputs] if asked.binary else []
        return read_answer(self.post(_path(asked.model, asked.version), document, *sections))

    def post(self, path: str, document: Any, *sections: bytes) -> httpx.Response:
        """With binary tensors after the JSON, where there are any."""
        text = json.dumps(document).encode()
        headers = {"content-type": "application/json"}
        if sections:
            headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(text))}
        return self.http.post(f"{path}/infer", content=b"".join((text, *sections)), headers=headers)

    def _input(self, one: Tensor, asked: Asked) -> dict[str, Any]:
        made: dict[str, Any] = {"name": one.name, "datatype": one.datatype, "shape": list(one.shape)}
        parameters = {**(asked.tensor_parameters or {}), **({"binary_data_size": len(one.raw())} if asked.binary else {})}
        if parameters:
            made["parameters"] = parameters
        if not asked.binary:
            elements = one.data.reshape(-1).tolist()
            made["data"] = [part.decode() if isinstance(part, bytes) else part for part in elements]
        return made

    def index(self, *, ready: bool = False) -> list[tuple[str, str, str]]:
        said = _said(self.http.post("/v2/repository/index", json={"ready": ready}))
        return [(one["name"], one["version"], one["state"]) for one in said]

    def manage(self, verb: Literal["load", "unload"], model: str) -> None:
        _said(self.http.post(f"/v2/repository/models/{model}/{verb}", json={}))


class Grpc:
    """Implements `Face` over gRPC. `stub` and `metadata` are for what only gRPC can say."""

    def __init__(self, url: str, token: str = "") -> None:  # nosec B107 - none, by default
        self.channel = grpc.insecure_channel(url.removeprefix("http://"))
        self.stub = service_pb2_grpc.GRPCInferenceServiceStub(self.channel)
        self.metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self.stub, method)(request, metadata=self.metadata, timeout=_PATIENCE)
        except grpc.RpcError as error:
            raise Refused(_BY_CODE.get(error.code(), "other"), error.details()) from None

    def health(self, word: Literal["live", "ready"]) -> bool:
        if word == "live":
            return bool(self.call("ServerLive", service_pb2.ServerLiveRequest()).live)
        return bool(self.call("ServerReady", service_pb2.ServerReadyRequest()).ready)

    def server(self) -> ServerShown:
        said = self.call("ServerMetadata", service_pb2.ServerMetadataRequest())
        return ServerShown(name=said.name, version=said.version, extensions=frozenset(said.extensions))

    def is_ready(self, model: str, version: str = "") -> bool:
        return bool(self.call("ModelReady", service_pb2.ModelReadyRequest(name=model, version=version)).ready)

    def described(self, model: str, version: str = "") -> ModelShown:
        said = self.call("ModelMetadata", service_pb2.ModelMetadataRequest(name=model, version=version))
        return ModelShown(
            name=said.name,
            versions=tuple(said.versions),
            platform=said.platform,
            inputs={one.name: (one.datatype, tuple(one.shape)) for one in said.inputs},
            outputs={one.name: (one.datatype, tuple(one.shape)) for one in said.outputs},
        )

    def infer(self, asked: Asked) -> Answered:
        request = service_pb2.ModelInferRequest(model_name=asked.model, model_version=asked.version, id=asked.id)
        _set(request.parameters, asked.parameters)
        for one in asked.inputs:
            made = request.inputs.add(name=one.name, datatype=one.datatype, shape=one.shape)
            _set(made.parameters, asked.tensor_parameters)
            if asked.binary:
                request.raw_input_contents.append(one.raw())
            elif one.datatype in CONTENTS:
                getattr(made.contents, CONTENTS[one.datatype]).extend(one.data.reshape(-1).tolist())
        for name in asked.outputs:
            _set(request.outputs.add(name=name).parameters, asked.tensor_parameters)
        return self.read(self.call("ModelInfer", request))

    def read(self, said: Any) -> Answered:
        outputs = {}
        for at, one in enumerate(said.outputs):
            if said.raw_output_contents:
                outputs[one.name] = _from_bytes(said.raw_output_contents[at], one.datatype, one.shape)
            else:
                elements = list(getattr(one.contents, CONTENTS[one.datatype]))
                outputs[one.name] = np.array(elements, DTYPES[one.datatype]).reshape(one.shape)
        datatypes = {one.name: one.datatype for one in said.outputs}
        return Answered(model=said.model_name, version=said.model_version, id=said.id, datatypes=datatypes, outputs=outputs)

    def index(self, *, ready: bool = False) -> list[tuple[str, str, str]]:
        said = self.call("RepositoryIndex", service_pb2.RepositoryIndexRequest(ready=ready))
        return [(one.name, one.version, one.state) for one in said.models]

    def manage(self, verb: Literal["load", "unload"], model: str) -> None:
        if verb == "load":
            self.call("RepositoryModelLoad", service_pb2.RepositoryModelLoadRequest(model_name=model))
        else:
            self.call("RepositoryModelUnload", service_pb2.RepositoryModelUnloadRequest(model_name=model))


def read_answer(response: httpx.Response) -> Answered:
    """JSON, and the binary tensors after it where there are any."""
    length = response.headers.get("inference-header-content-length")
    content = response.content
    said = _said(response, content if length is None else content[: int(length)])
    at, outputs = len(content) if length is None else int(length), {}
    for one in said["outputs"]:
        size = one.get("parameters", {}).get("binary_data_size")
        if size is None:
            elements = [part.encode() if isinstance(part, str) else part for part in one["data"]]
            outputs[one["name"]] = np.array(elements, DTYPES[one["datatype"]]).reshape(one["shape"])
        else:
            outputs[one["name"]] = _from_bytes(content[at : at + size], one["datatype"], one["shape"])
            at += size
    assert at == len(content)
    datatypes = {one["name"]: one["datatype"] for one in said["outputs"]}
    named = {"model": said["model_name"], "version": said["model_version"], "id": said.get("id", "")}
    return Answered(**named, datatypes=datatypes, outputs=outputs)


def _said(response: httpx.Response, content: bytes | None = None) -> Any:
    document = json.loads(response.content if content is None else content)
    if response.status_code != 200:
        raise Refused(_BY_STATUS.get(response.status_code, "other"), document["error"])
    return document


def _from_bytes(content: bytes, datatype: str, shape: Sequence[int]) -> Array:
    if datatype == "BYTES":
        return np.asarray(deserialize_bytes_tensor(content)).reshape(shape)
    return np.frombuffer(content, DTYPES[datatype]).reshape(shape)


def _path(model: str, version: str) -> str:
    return f"/v2/models/{model}/versions/{version}" if version else f"/v2/models/{model}"


def _set(parameters: Any, given: Mapping[str, Any] | None) -> None:
    for name, one in (given or {}).items():
        field = "bool_param" if isinstance(one, bool) else "int64_param" if isinstance(one, int) else "string_param"
        setattr(parameters[name], field, one)
