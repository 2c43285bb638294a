"""The Open Inference Protocol, case by case, against a real plane with real models."""

from collections.abc import Iterator
from typing import Any

import pytest
from onnx import TensorProto

from falaj.serving.operations.endpoints import DEPLOY_REVISION, Deploy
from falaj.serving.operations.keys import CREATE_KEY, CreateKey
from falaj.testing.inference import MIXED, SAMPLES, GrpcConformance, InferenceConformance, RestConformance, Served, of
from tests.serving.graphs import mixed, same
from tests.serving.site import PROJECT, Site

IN_ONNX = {
    **{f"{sign}INT{bits}": getattr(TensorProto, f"{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64)},
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BOOL": TensorProto.BOOL,
    "BYTES": TensorProto.STRING,
}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    site = Site(tmp_path_factory.mktemp("site"), workers="1")
    try:
        for datatype in SAMPLES:
            version = site.register(of(datatype), same(IN_ONNX[datatype]))
            site.platform.call(
                DEPLOY_REVISION, Deploy(project=PROJECT, endpoint=of(datatype), model=of(datatype), version=version)
            )
        version = site.register(MIXED, mixed())
        site.deploy(MIXED, MIXED, version)
        site.deploy(MIXED, MIXED, version)  # the first one stays, for a rollback, and can be asked for
        yield Served(url=site.url, token=_key(site, manage=True), narrow=_key(site, endpoints=(of("FP32"),)))
    finally:
        site.close()


def _key(site: Site, **more: Any) -> str:
    return str(site.platform.call(CREATE_KEY, CreateKey(project=PROJECT, label="a program", **more)).token)


class TestBothFaces(InferenceConformance):
    @pytest.fixture
    def served(self, plane: Served) -> Served:
        return plane


class TestRest(RestConformance):
    @pytest.fixture
    def served(self, plane: Served) -> Served:
        return plane


class TestGrpc(GrpcConformance):
    @pytest.fixture
    def served(self, plane: Served) -> Served:
        return plane
