"""Every endpoint that this client's own protocol declares, as JSON: [method, path]."""

import json

from mlflow.protos import databricks_pb2, mlflow_artifacts_pb2, model_registry_pb2, service_pb2

declared = []
for module, service in (
    (service_pb2, "MlflowService"),
    (model_registry_pb2, "ModelRegistryService"),
    (mlflow_artifacts_pb2, "MlflowArtifactsService"),
):
    for method in module.DESCRIPTOR.services_by_name[service].methods:
        for endpoint in method.GetOptions().Extensions[databricks_pb2.rpc].endpoints:
            declared += [[endpoint.method, endpoint.path]]
print(json.dumps(declared))
