"""The protocol's methods over the core, and gRPC's own health check."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from falaj.base.errors import FalajError, NotFound
from falaj.serving.plane.asking import Core
from falaj.serving.plane.grpc import messages
from falaj.serving.plane.grpc.answers import Answers
from falaj.serving.plane.grpc.calls import CallHead, Message, Method, RefusedHead, StreamReply, UnaryCall
from falaj.serving.plane.grpc.fields import Request, write_field
from falaj.serving.plane.grpc.limits import Limits
from falaj.serving.plane.grpc.requests import Requests, parse
from falaj.serving.plane.grpc.statuses import INVALID_ARGUMENT, UNIMPLEMENTED, Refusal, error_alone, http_refusal
from falaj.serving.plane.grpc.streams import Head

logger = logging.getLogger(__name__)

_SERVICE: Final = b"/inference.GRPCInferenceService/"
_HEALTH: Final = b"/grpc.health.v1.Health/"
_SMALL: Final = 64 * 1024  # of messages that hold names alone
_READ_FOR_ANYBODY: Final = 4 * 1024  # a message of numbers in lists costs more to read than a token does
_EXTENSIONS: Final = ("model_repository",)
_UNITS: Final = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_COMPRESSIONS: Final = (b"gzip", b"deflate")


class Service:
    """An `Application` for HTTP/2 connections."""

    def __init__(self, core: Core, limits: Limits, version: str, name: str = "falaj") -> None:
        self._core = core
        self._requests = Requests(limits.described)
        self._name = name
        self._version = version
        self._answers = Answers()
        self._tasks: set[asyncio.Task[None]] = set()
        infer = self._infer
        self._methods: dict[bytes, Method] = {
            _SERVICE + b"ModelInfer": Method(infer, limits.message, admit=core.admit),
            _SERVICE + b"ModelStreamInfer": Method(infer, limits.message, streams=True, admit=core.admit),
            _SERVICE + b"ServerLive": self._method(messages.ServerLiveRequest, self._server_live, to_all=True),
            _SERVICE + b"ServerReady": self._method(messages.ServerReadyRequest, self._server_ready, to_all=True),
            _SERVICE + b"ServerMetadata": self._method(messages.ServerMetadataRequest, self._server_metadata, to_all=True),
            _SERVICE + b"ModelReady": self._method(messages.ModelReadyRequest, self._model_ready),
            _SERVICE + b"ModelMetadata": self._method(messages.ModelMetadataRequest, self._model_metadata),
            _SERVICE + b"RepositoryIndex": self._method(messages.RepositoryIndexRequest, self._index),
            _SERVICE + b"RepositoryModelLoad": self._later(messages.RepositoryModelLoadRequest, self._load),
            _SERVICE + b"RepositoryModelUnload": self._later(messages.RepositoryModelUnloadRequest, self._unload),
            _HEALTH + b"Check": self._method(messages.HealthCheckRequest, self._check, to_all=True),
        }

    def accept(self, request: Request) -> Head:
        """Reads a call's head. Depends on the request alone, for its outcome is remembered."""
        metadata: dict[bytes, bytes] = {}
        for name, content in request.regular:
            if name in metadata and name in _ONCE:
                return self._refused(request, Refusal(INVALID_ARGUMENT, f"{name.decode()} is given twice"))
            metadata[name] = content
        if request.method != b"POST":
            return RefusedHead(http_refusal(405) + write_field(b"allow", b"POST"), request.length)
        if not _is_grpc(metadata.get(b"content-type", b"")):
            return RefusedHead(http_refusal(415), request.length)
        method = self._methods.get(request.path)
        if method is None:
            words = f"there is no method {request.path.decode(errors='replace')[:200]} here"
            return self._refused(request, Refusal(UNIMPLEMENTED, words))
        try:
            return CallHead(
                method,
                self._answers,
                length=request.length,
                token=_token(metadata.get(b"authorization", b"")),
                key=_text(metadata, b"x-falaj-key"),
                override=_text(metadata, b"x-falaj-revision"),
                seconds=_seconds(metadata.get(b"grpc-timeout")),
                compressed=_compression(metadata.get(b"grpc-encoding", b"identity")),
            )
        except Refusal as refusal:
            return self._refused(request, refusal)

    def _refused(self, request: Request, refusal: Refusal) -> RefusedHead:
        block = error_alone(refusal)
        if refusal.status == UNIMPLEMENTED:
            block += write_field(b"grpc-accept-encoding", b"identity,gzip,deflate")
        return RefusedHead(block, request.length)

    def _infer(self, reply: UnaryCall | StreamReply, message: Message) -> None:
        try:
            head = reply.head
            if not head.project or len(message) > _READ_FOR_ANYBODY:
                head.project = self._core.admit(head.token, reply.source)
            ask = self._requests.read(message, head, reply, reply.arrived)
        except FalajError as error:
            reply.refuse(error)
            return
        if type(reply) is StreamReply:
            reply.id = ask.id
        self._core.submit(ask)

    def _method(self, kind: Any, answer: Callable[[CallHead, Any], Any], *, to_all: bool = False) -> Method:
        """A method that is answered at once, `to_all` or to those who have a token."""

        def handle(call: UnaryCall, message: Message) -> None:
            try:
                if not to_all:
                    self._core.admit(call.head.token, call.source)
                reply = answer(call.head, parse(kind, message)).SerializeToString()
            except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a status
                _refuse(call, error)
            else:
                call.reply(reply)

        return Method(handle, _SMALL)

    def _later(self, kind: Any, answer: Callable[[CallHead, Any], Awaitable[Any]]) -> Method:
        """A method that takes its time. It goes on when the caller is gone: half a load helps nobody."""

        async def finish(call: UnaryCall, message: Message) -> None:
            try:
                self._core.admit(call.head.token, call.source)
                reply = (await answer(call.head, parse(kind, message))).SerializeToString()
            except Exception as error:  # noqa: BLE001 - as above
                _refuse(call, error)
            else:
                call.reply(reply)

        def handle(call: UnaryCall, message: Message) -> None:
            task = asyncio.get_running_loop().create_task(finish(call, message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return Method(handle, _SMALL)

    def _server_live(self, _head: CallHead, _request: Any) -> Any:
        return messages.ServerLiveResponse(live=True)

    def _server_ready(self, _head: CallHead, _request: Any) -> Any:
        return messages.ServerReadyResponse(ready=self._core.is_ready())

    def _server_metadata(self, _head: CallHead, _request: Any) -> Any:
        return messages.ServerMetadataResponse(name=self._name, version=self._version, extensions=_EXTENSIONS)

    def _model_ready(self, head: CallHead, request: Any) -> Any:
        return messages.ModelReadyResponse(ready=self._core.is_model_ready(head.token, request.name, request.version))

    def _model_metadata(self, head: CallHead, request: Any) -> Any:
        described = self._core.describe(head.token, request.name, request.version)
        response = messages.ModelMetadataResponse(name=described.name, versions=described.versions, platform=described.platform)
        for specs, tensors in ((described.inputs, response.inputs), (described.outputs, response.outputs)):
            for spec in specs:
                tensors.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)
        return response

    def _index(self, head: CallHead, request: Any) -> Any:
        response = messages.RepositoryIndexResponse()
        for entry in self._core.index(head.token):
            if entry.state == "READY" or not request.ready:
                response.models.add(name=entry.name, version=entry.version, state=entry.state, reason=entry.reason)
        return response

    async def _load(self, head: CallHead, request: Any) -> Any:
        if request.parameters:
            raise Refusal(INVALID_ARGUMENT, "a model is loaded as it was deployed; it takes no parameters or files here")
        await self._core.load(head.token, request.model_name)
        return messages.RepositoryModelLoadResponse()

    async def _unload(self, head: CallHead, request: Any) -> Any:
        await self._core.unload(head.token, request.model_name)
        return messages.RepositoryModelUnloadResponse()

    def _check(self, _head: CallHead, request: Any) -> Any:
        if request.service not in ("", "inference.GRPCInferenceService"):
            raise NotFound(f"there is no service {request.service!r} here")
        kind = messages.HealthCheckResponse
        return kind(status=kind.SERVING if self._core.is_ready() else kind.NOT_SERVING)


_ONCE: Final = frozenset(
    (b"authorization", b"x-falaj-key", b"x-falaj-revision", b"grpc-timeout", b"grpc-encoding", b"content-type"),
)


def _refuse(call: UnaryCall, error: Exception) -> None:
    if not isinstance(error, FalajError):
        logger.error("a call failed", exc_info=error)
    call.refuse(error)


def _is_grpc(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() in (b"application/grpc", b"application/grpc+proto")


def _token(authorization: bytes) -> str:
    scheme, _, token = authorization.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""


def _text(metadata: dict[bytes, bytes], name: bytes) -> str:
    try:
        return metadata.get(name, b"").decode()
    except UnicodeDecodeError:
        raise Refusal(INVALID_ARGUMENT, f"{name.decode()} is not UTF-8") from None


def _seconds(timeout: bytes | None) -> float | None:
    if timeout is None:
        return None
    number, unit = timeout[:-1], _UNITS.get(timeout[-1:])
    if unit is None or not number.isdigit() or len(number) > 8:
        raise Refusal(INVALID_ARGUMENT, "grpc-timeout is at most eight digits and one of H, M, S, m, u, n")
    return int(number) * unit


def _compression(encoding: bytes) -> bool:
    if encoding in _COMPRESSIONS:
        return True
    if encoding != b"identity":
        words = encoding.decode(errors="replace")[:50]
        raise Refusal(UNIMPLEMENTED, f"messages in {words} are not taken; gzip and deflate are")
    return False
