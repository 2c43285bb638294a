"""Platforms whose jobs have a framework, one for all tests of a file."""

from collections.abc import Iterator

import pytest

from tests.training.launchers.platforms import Equipped, equipped


@pytest.fixture(scope="module")
def with_torch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("torch"), "mlflow3", FALAJ_JOBS_CPUS="2") as running:
        yield running


@pytest.fixture(scope="module")
def with_mpi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("mpi"), "mpi", FALAJ_JOBS_CPUS="2") as running:
        yield running


@pytest.fixture(scope="module")
def with_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("ray"), "raytrain") as running:
        yield running


@pytest.fixture(scope="module")
def with_tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("tensorflow"), "tensorflow") as running:
        yield running


@pytest.fixture(scope="module")
def with_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Equipped]:
    with equipped(tmp_path_factory.mktemp("spark"), "spark") as running:
        yield running
