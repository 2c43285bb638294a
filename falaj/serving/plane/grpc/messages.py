"""The protocol's messages, made from their descriptions when this is imported.

They live in a pool of their own: in protobuf's common one, the names would collide with those of other servers' clients.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from falaj.serving.plane.grpc.descriptors import DESCRIPTORS


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS)
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _pool()


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


ServerLiveRequest = _message("inference.ServerLiveRequest")
ServerLiveResponse = _message("inference.ServerLiveResponse")
ServerReadyRequest = _message("inference.ServerReadyRequest")
ServerReadyResponse = _message("inference.ServerReadyResponse")
ModelReadyRequest = _message("inference.ModelReadyRequest")
ModelReadyResponse = _message("inference.ModelReadyResponse")
ServerMetadataRequest = _message("inference.ServerMetadataRequest")
ServerMetadataResponse = _message("inference.ServerMetadataResponse")
ModelMetadataRequest = _message("inference.ModelMetadataRequest")
ModelMetadataResponse = _message("inference.ModelMetadataResponse")
ModelInferRequest = _message("inference.ModelInferRequest")
ModelInferResponse = _message("inference.ModelInferResponse")
ModelStreamInferResponse = _message("inference.ModelStreamInferResponse")
RepositoryIndexRequest = _message("inference.RepositoryIndexRequest")
RepositoryIndexResponse = _message("inference.RepositoryIndexResponse")
RepositoryModelLoadRequest = _message("inference.RepositoryModelLoadRequest")
RepositoryModelLoadResponse = _message("inference.RepositoryModelLoadResponse")
RepositoryModelUnloadRequest = _message("inference.RepositoryModelUnloadRequest")
RepositoryModelUnloadResponse = _message("inference.RepositoryModelUnloadResponse")
HealthCheckRequest = _message("grpc.health.v1.HealthCheckRequest")
HealthCheckResponse = _message("grpc.health.v1.HealthCheckResponse")
