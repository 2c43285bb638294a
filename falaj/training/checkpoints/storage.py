"""torch.distributed.checkpoint on sealed files: which process writes and reads what is torch's business, the bytes are ours.

Tensors lie in the files as they lie in memory, and the manifest is JSON: to read a checkpoint unpickles nothing.
"""

import dataclasses
import io
import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.state_dict_loader import load as torch_load
from torch.distributed.checkpoint.state_dict_saver import save as torch_save
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from falaj.base.values import value
from falaj.training.checkpoints import folders, manifests
from falaj.training.checkpoints.errors import Damaged
from falaj.training.checkpoints.manifests import Content, Entry, Manifest, Part
from falaj.training.checkpoints.sealing import OpenedFile, SealedFile
from falaj.training.checkpoints.workers import Workers


@value
class Place:
    """Where a process wrote something, and what its file became."""

    file: str
    begin: int
    length: int
    content: Content


@value
class Saving:
    """One checkpoint that is being made."""

    folder: Path
    name: str
    key: bytes
    step: int
    metric: float | None


def save(
    saving: Saving, workers: Workers, tensors: Mapping[str, Tensor], copies: Mapping[str, Tensor], blobs: Mapping[str, bytes]
) -> None:
    """By all processes at once. `tensors` are looked at for their shapes; what is written is in `copies`."""
    writer, planner = SealedWriter(saving, workers.count), _Copies({**copies, **blobs})
    state: dict[str, Any] = {**tensors, **blobs}
    if workers.together:
        torch_save(state, storage_writer=writer, planner=planner, process_group=workers.saving)
        return
    # What torch does among several processes, without its warning that there is only one.
    planner.set_up_planner(state, writer.storage_meta(), True)
    writer.set_up_storage_writer(True)
    plans, metadata = planner.create_global_plan([writer.prepare_local_plan(planner.create_local_plan())])
    [plan] = writer.prepare_global_plan(plans)
    writer.finish(metadata, [writer.write_data(planner.finish_plan(plan), planner).wait()])


def load(folder: Path, key: bytes, manifest: Manifest, workers: Workers, state: dict[str, Any]) -> None:
    """Into the tensors of `state`, by all processes at once; what is no tensor is replaced by the bytes that were saved."""
    reader, planner = SealedReader(folder, key, manifest), _Bytes()
    if workers.together:
        torch_load(state, storage_reader=reader, planner=planner, process_group=workers.looping)
        return
    metadata = reader.read_metadata()
    planner.set_up_planner(state, metadata, True)
    reader.set_up_storage_reader(metadata, True)
    [plan] = reader.prepare_global_plan(planner.create_global_plan([reader.prepare_local_plan(planner.create_local_plan())]))
    reader.read_data(planner.finish_plan(plan), planner).wait()


class _Copies(DefaultSavePlanner):  # type: ignore[misc,unused-ignore]
    """Plans by the tensors themselves, which know how they are sharded, and hands out the copies."""

    def __init__(self, copies: Mapping[str, Any]) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self._copies = copies

    def lookup_object(self, index: MetadataIndex) -> Any:
        return self._copies[index.fqn]

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:  # noqa: A002 - torch's name
        return io.BytesIO(object) if write_item.type == WriteItemType.BYTE_IO else object


class _Bytes(DefaultLoadPlanner):  # type: ignore[misc,unused-ignore]
    """Hands on bytes as they are; torch's own would unpickle them."""

    def __init__(self) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        self.state_dict[read_item.dest_index.fqn] = value.getvalue()


class SealedWriter(StorageWriter):  # type: ignore[misc,unused-ignore]
    """A file for each process; the first one adds the manifest when all have written theirs."""

    def __init__(self, saving: Saving, workers: int) -> None:
        self._saving = saving
        self._workers = workers
        self._hidden = folders.being_written(saving.folder, saving.name)

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [dataclasses.replace(plan, storage_data=f"part-{rank:05}") for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> "Future[list[WriteResult]]":
        name, written = plan.storage_data, []
        with SealedFile(self._hidden / name, self._saving.key, manifests.about(self._saving.name, name)) as file:
            for item in plan.items:
                begin = file.size
                file.write(_bytes_of(planner.resolve_data(item)))
                written.append((item.index, begin, file.size - begin))
        content = Content(size=file.size, digest=file.digest)
        results: Future[list[WriteResult]] = Future()
        results.set_result(
            [
                WriteResult(
                    index=index,
                    size_in_bytes=length,
                    storage_data=Place(file=name, begin=begin, length=length, content=content),
                )
                for index, begin, length in written
            ]
        )
        return results

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        places: dict[MetadataIndex, Place] = {one.index: one.storage_data for several in results for one in several}
        files = {place.file: place.content for place in places.values()}
        if missing := [name for name in files if not (self._hidden / name).is_file()]:
            raise Damaged(
                f"{', '.join(missing)} of {self._saving.name} was written where the first process does not see it: checkpoints "
                "of several hosts need a folder that all of them share."
            )
        manifest = Manifest(
            name=self._saving.name,
            step=self._saving.step,
            metric=self._saving.metric,
            workers=self._workers,
            created=time.time(),
            files=files,
            entries={name: _entry(name, about, places) for name, about in metadata.state_dict_metadata.items()},
        )
        manifests.write(self._hidden, self._saving.key, manifest)
        folders.publish(self._saving.folder, self._saving.name)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


class SealedReader(StorageReader):  # type: ignore[misc,unused-ignore]
    """Reads what a process needs, and of a tensor that was cut otherwise only the rows that it needs."""

    def __init__(self, folder: Path, key: bytes, manifest: Manifest) -> None:
        self._folder, self._key, self._manifest = folder, key, manifest
        self._parts: dict[MetadataIndex, Part] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        pass

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        about: dict[str, Any] = {}
        for name, entry in self._manifest.entries.items():
            if not entry.dtype:
                about[name] = BytesStorageMetadata()
                self._parts[MetadataIndex(name)] = entry.parts[0]
                continue
            chunks = [ChunkStorageMetadata(torch.Size(part.offsets), torch.Size(part.sizes)) for part in entry.parts]
            properties = TensorProperties(dtype=getattr(torch, entry.dtype))
            about[name] = TensorStorageMetadata(properties, torch.Size(entry.size), chunks)
            self._parts |= {MetadataIndex(name, chunk.offsets): part for chunk, part in zip(chunks, entry.parts, strict=True)}
        return Metadata(state_dict_metadata=about)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        pass

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> "Future[None]":
        by_file: dict[str, list[tuple[Part, ReadItem]]] = {}
        for item in plan.items:
            part = self._parts[item.storage_index]
            by_file.setdefault(part.file, []).append((part, item))
        for name, wanted in by_file.items():
            with OpenedFile(self._folder / name, self._key, manifests.about(self._manifest.name, name)) as file:
                for part, item in sorted(wanted, key=lambda one: one[0].begin):
                    self._read(file, part, item, planner)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _read(self, file: OpenedFile, part: Part, item: ReadItem, planner: LoadPlanner) -> None:
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(file.read(part.begin, part.length)))
            return
        dtype = getattr(torch, self._manifest.entries[item.storage_index.fqn].dtype)
        found = _rows(file, part, dtype, tuple(item.storage_offsets), tuple(item.lengths))
        target = planner.resolve_tensor(item).detach()
        target.copy_(found)
        planner.commit_tensor(item, target)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return True


def _rows(file: OpenedFile, part: Part, dtype: torch.dtype, offsets: tuple[int, ...], lengths: tuple[int, ...]) -> Tensor:
    """The block of a stored tensor from `offsets` on; what lies before and after its rows is not read."""
    if not part.sizes or 0 in lengths:
        held = file.read(part.begin, part.length if not part.sizes else 0)
        return torch.frombuffer(held, dtype=dtype).reshape(lengths) if held else torch.empty(lengths, dtype=dtype)
    row = math.prod(part.sizes[1:]) * dtype.itemsize
    held = file.read(part.begin + offsets[0] * row, lengths[0] * row)
    found = torch.frombuffer(held, dtype=dtype).reshape(lengths[0], *part.sizes[1:])
    for axis in range(1, len(lengths)):
        found = found.narrow(axis, offsets[axis], lengths[axis])
    return found


def _entry(name: str, about: Any, places: Mapping[MetadataIndex, Place]) -> Entry:
    if isinstance(about, BytesStorageMetadata):
        return Entry(dtype="", size=(), parts=(_part((), (), places[MetadataIndex(name)]),))
    parts = tuple(_part(tuple(one.offsets), tuple(one.sizes), places[MetadataIndex(name, one.offsets)]) for one in about.chunks)
    return Entry(dtype=str(about.properties.dtype).removeprefix("torch."), size=tuple(about.size), parts=parts)


def _part(offsets: tuple[int, ...], sizes: tuple[int, ...], place: Place) -> Part:
    return Part(offsets=offsets, sizes=sizes, file=place.file, begin=place.begin, length=place.length)


def _bytes_of(what: Any) -> memoryview:
    if isinstance(what, io.BytesIO):
        return what.getbuffer()
    flat: Any = what.detach().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy() if flat.numel() else b"")
