"""A dataset version as batches for a training: `falaj.dataset("flights@3").torch(...)` and `.tensorflow(...)`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from falaj.base.errors import Misconfigured
from falaj.base.values import value

if TYPE_CHECKING:
    from falaj.tables.granted import GrantedTable
    from falaj.training.loading.sources import ArrayGroups

BUFFER: Final = 262_144  # rows that are mixed with each other: two row groups of usual size


@value
class Fed:
    """How rows become batches: see `Feeds.torch`. `content` is the digest of the version."""

    columns: Sequence[str] | None = None
    features: Sequence[str] | None = None
    target: str | None = None
    lists: Sequence[str] = ()
    batch_size: int = 1024
    shuffle: bool = False
    seed: int = 0
    buffer: int = BUFFER
    drop_last: bool = False
    content: str = ""


class Feeds(ABC):
    """What a dataset offers to trainings."""

    digest: str

    @abstractmethod
    def _table(self) -> "GrantedTable": ...

    def torch(
        self,
        *,
        columns: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        target: str | None = None,
        lists: Sequence[str] = (),
        batch_size: int = 1024,
        shuffle: bool = False,
        seed: int = 0,
        buffer: int = BUFFER,
        drop_last: bool = False,
        rank: int | None = None,
        ranks: int | None = None,
    ) -> Any:
        """Batches of tensors, an `IterableDataset` that is read ahead in threads: `for batch in flights.torch(...)`.

        A batch is a dictionary of `columns`, all of them unless some are named. With `features` it is one float32 matrix of
        those columns, where nulls are NaN; with a `target` beside, the two of them. Columns that hold no numbers are refused,
        unless they are named in `lists`.

        With `shuffle` row groups come in an order that `seed` and epoch decide, and the rows of at least `buffer` are mixed.
        Each iteration is the next epoch. `state_dict` and `load_state_dict` go on within one. Each process of a training has
        its share: torch's group says whose this is, or `rank` of `ranks`.
        """
        fed = Fed(
            columns=columns,
            features=features,
            target=target,
            lists=lists,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            buffer=buffer,
            drop_last=drop_last,
            content=self.digest,
        )
        return torch_batches(self._arrays(), fed, rank=rank, ranks=ranks)

    def tensorflow(
        self,
        *,
        columns: Sequence[str] | None = None,
        features: Sequence[str] | None = None,
        target: str | None = None,
        lists: Sequence[str] = (),
        batch_size: int = 1024,
        shuffle: bool = False,
        seed: int = 0,
        buffer: int = BUFFER,
        drop_last: bool = False,
        rank: int = 0,
        ranks: int = 1,
        epoch: int = 0,
        skip: int = 0,
    ) -> Any:
        """The same batches as a `tf.data.Dataset`. To go on after a stop, say in which `epoch`, and what batches to `skip`."""
        fed = Fed(
            columns=columns,
            features=features,
            target=target,
            lists=lists,
            batch_size=batch_size,
            shuffle=shuffle,
            seed=seed,
            buffer=buffer,
            drop_last=drop_last,
            content=self.digest,
        )
        return tensorflow_batches(self._arrays(), fed, rank=rank, ranks=ranks, epoch=epoch, skip=skip)

    def _arrays(self) -> "ArrayGroups":
        table = self._table()
        source: ArrayGroups = import_module("falaj.tables.arrays").GroupArrays(table.schema, table.parts)
        return source


def torch_batches(source: "ArrayGroups", fed: Fed, *, rank: int | None = None, ranks: int | None = None) -> Any:
    batches = _library("falaj.training.loading.torch_batches", "torch", "falaj[train]")
    return batches.TorchBatches(source, *_planned(source, fed), rank=rank, ranks=ranks)


def tensorflow_batches(source: "ArrayGroups", fed: Fed, *, rank: int, ranks: int, epoch: int, skip: int) -> Any:
    batches = _library("falaj.training.loading.tensorflow_batches", "tensorflow", "falaj[tensorflow]")
    share = import_module("falaj.training.loading.orders").Share(rank=rank, ranks=ranks)
    return batches.tensorflow_batches(source, *_planned(source, fed), share=share, epoch=epoch, skip=skip)


def _planned(source: "ArrayGroups", fed: Fed) -> tuple[Any, Any]:
    layouts, orders = (import_module(f"falaj.training.loading.{name}") for name in ("layouts", "orders"))
    layout = layouts.layout_of(source.dtypes, columns=fed.columns, features=fed.features, target=fed.target, lists=fed.lists)
    order = orders.Order(
        rows=tuple(source.rows),
        batch=fed.batch_size,
        seed=fed.seed,
        shuffled=fed.shuffle,
        pool=fed.buffer,
        drop_last=fed.drop_last,
        content=fed.content,
    )
    return layout, order


def _library(module: str, name: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise Misconfigured(f"There is no {name} here: pip install '{extra}'.") from None
