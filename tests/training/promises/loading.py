"""What a training is fed with, from sealed parts: every row once, by seed, shared out, and on exactly where it stopped."""

import itertools
import os
import secrets
import signal
from decimal import Decimal

import numpy as np
import pyarrow as pa
import torch
import torch._dynamo  # optimisers do it at their first step; here once for all forks
from torch import nn
from torch.utils.data import DataLoader

from falaj.base.errors import Invalid
from falaj.client.dataset_loaders import Fed, torch_batches
from falaj.tables.arrays import GroupArrays
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.errors import Altered
from falaj.tables.granted import SealedPart
from falaj.tables.parts import PartWriter
from falaj.training import Saves, Session, Wishes
from falaj.training.checkpoints.keys import GivenKey
from falaj.training.checkpoints.loaders import resumable
from tests.training.processes import in_a_fork

ROWS = 3_000
GROUP = 250


def _sealed(folder, table, part_rows=1_000):
    """Parts of several row groups each, whose columns may be called otherwise now."""
    parts = []
    for start in range(0, table.num_rows, part_rows):
        key, object_id = secrets.token_bytes(32), secrets.token_hex(16)
        file = folder / f"{object_id}.part"
        with file.open("wb") as out, PartWriter(out, from_arrow(table.schema), key=key, object_id=object_id) as writer:
            for batch in table.slice(start, part_rows).to_batches(GROUP):
                writer.write(batch)
                writer._cut(whole_blocks=False)
                writer._write_group()
        parts.append(
            SealedPart(object_id=object_id, key=key, renamed={}, fetch=file.read_bytes, seek=lambda file=file: file.open("rb"))
        )
    return parts


def _table(rows=ROWS):
    numbers = np.arange(rows)
    return pa.table(
        {
            "id": numbers,
            "half": numbers / 2,
            "small": pa.array(numbers % 7, pa.int16()),
            "even": numbers % 2 == 0,
            "name": [f"row {number}" for number in numbers],
            "gaps": pa.array([None if number % 10 == 3 else int(number) for number in numbers], pa.int64()),
            "price": pa.array([Decimal(int(number)) / 4 for number in numbers], pa.decimal128(18, 2)),
            "place": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(numbers, 2), pa.float32()), 2),
        }
    )


def _source(folder, table=None):
    table = _table() if table is None else table
    return GroupArrays(from_arrow(table.schema), _sealed(folder, table))


def _ids(batches):
    return [batch["id"].tolist() for batch in batches]


def _flat(lists):
    return list(itertools.chain.from_iterable(lists))


def _refused(kind, act):
    """What was said."""
    try:
        act()
    except kind as error:
        return str(error)
    raise AssertionError("it was not refused")


def rows_come_as_they_lie_where_nothing_is_shuffled(folder):
    batches = torch_batches(_source(folder), Fed(columns=["id", "half", "small", "even"], batch_size=64))
    found = list(batches)
    assert len(found) == len(batches) == -(-ROWS // 64)
    assert _flat(_ids(found)) == list(range(ROWS))
    assert {name: tensor.dtype for name, tensor in found[0].items()} == {
        "id": torch.int64,
        "half": torch.float64,
        "small": torch.int16,
        "even": torch.bool,
    }
    assert torch.equal(found[3]["half"], found[3]["id"] / 2)


def each_epoch_has_an_order_of_its_own_and_the_same_seed_the_same(folder):
    source = _source(folder)
    batches = torch_batches(source, Fed(columns=["id"], batch_size=64, shuffle=True, seed=5, buffer=600))
    first, second = _ids(batches), _ids(batches)
    assert sorted(_flat(first)) == sorted(_flat(second)) == list(range(ROWS))
    assert first != second
    again = torch_batches(source, Fed(columns=["id"], batch_size=64, shuffle=True, seed=5, buffer=600))
    assert (_ids(again), _ids(again)) == (first, second)
    other = torch_batches(source, Fed(columns=["id"], batch_size=64, shuffle=True, seed=6, buffer=600))
    assert _ids(other) != first
    # The rows of several groups are mixed, which do not follow each other.
    assert len({one // GROUP for one in first[0]}) == 3
    assert max(first[0]) - min(first[0]) > 600


def rows_stay_together_however_they_are_mixed(folder):
    fed = Fed(features=["half", "place", "even", "gaps", "price"], target="id", batch_size=100, shuffle=True)
    for matrix, ids in torch_batches(_source(folder), fed):
        assert (matrix.dtype, matrix.shape[1]) == (torch.float32, 6)
        expected = torch.stack([ids / 2, ids, ids, (ids % 2 == 0).float(), ids, ids / 4], dim=1)
        absent = ids % 10 == 3
        assert torch.equal(torch.isnan(matrix[:, 4]), absent)
        expected[absent, 4] = 0
        assert torch.equal(matrix.nan_to_num(0), expected)


def ranks_share_all_rows_and_have_as_many_batches(folder):
    source = _source(folder, _table(2_999))
    for shuffle in (False, True):
        fed = Fed(columns=["id"], batch_size=64, shuffle=shuffle, seed=3)
        shares = [_ids(torch_batches(source, fed, rank=rank, ranks=4)) for rank in range(4)]
        assert len({tuple(map(len, share)) for share in shares}) == 1
        rows = _flat(_flat(shares))
        assert len(rows) == 3_000
        assert set(rows) == set(range(2_999))


def loader_processes_share_without_overlap(folder):
    source = _source(folder)
    fed = Fed(columns=["id"], batch_size=64, shuffle=True)
    seen = []
    for rank in range(2):
        batches = torch_batches(source, fed, rank=rank, ranks=2)
        loaded = _ids(DataLoader(batches, batch_size=None, num_workers=2, multiprocessing_context="fork"))
        assert len(loaded) == len(batches) == 24
        seen += _flat(loaded)
    assert sorted(seen) == list(range(ROWS))


def last_rows_are_left_out_where_that_is_wished(folder):
    found = _ids(torch_batches(_source(folder), Fed(columns=["id"], batch_size=64, drop_last=True)))
    assert list(map(len, found)) == [64] * (ROWS // 64)


def whoever_stopped_goes_on_exactly_there(folder):
    source = _source(folder)
    fed = Fed(columns=["id"], batch_size=70, shuffle=True, seed=9, buffer=400)
    whole = torch_batches(source, fed)
    epochs = [_ids(whole) for _ in range(3)]
    for taken in (0, 1, 6, 20, 42, len(epochs[1])):
        stopped = torch_batches(source, fed)
        stopped.set_epoch(1)
        begun = _ids(itertools.islice(stopped, taken))
        resumed = torch_batches(source, fed)
        resumed.load_state_dict(stopped.state_dict())
        assert begun + _ids(resumed) == epochs[1], taken
        assert _ids(resumed) == epochs[2]


def whoever_finished_an_epoch_goes_on_with_the_next(folder):
    source = _source(folder)
    fed = Fed(columns=["id"], batch_size=70, shuffle=True)
    batches = torch_batches(source, fed)
    list(batches)
    resumed = torch_batches(source, fed)
    resumed.load_state_dict(batches.state_dict())
    assert _ids(resumed) == _ids(batches)


def a_training_that_is_taken_up_again_goes_on_there_and_reads_nothing_twice(folder):
    source = _source(folder)
    fed = Fed(columns=["id"], batch_size=70, shuffle=True, seed=9, buffer=400)
    undisturbed = resumable(torch_batches(source, fed))
    epochs = [_ids(undisturbed) for _ in range(3)]
    assert epochs[0] != epochs[1]
    stopped = resumable(torch_batches(source, fed))
    list(stopped)
    begun = _ids(itertools.islice(stopped, 30))
    read = []
    watched = GroupArrays.read
    GroupArrays.read = lambda self, group, columns: read.append(group) or watched(self, group, columns)
    resumed = resumable(torch_batches(source, fed))
    resumed.load_state_dict(stopped.state_dict())
    assert begun + _ids(resumed) == epochs[1]
    assert len(read) < 6  # of 12 groups, of which the first were read through
    assert _ids(resumed) == epochs[2]


def going_on_with_something_else_is_refused(folder):
    source = _source(folder)
    state = torch_batches(source, Fed(columns=["id"], batch_size=70)).state_dict()
    other = torch_batches(source, Fed(columns=["id"], batch_size=71), rank=0, ranks=2)
    said = _refused(Invalid, lambda: other.load_state_dict(state))
    assert "batch_size was 70 and is 71; ranks was 1 and is 2" in said
    changed = torch_batches(source, Fed(columns=["id"], batch_size=70, content="another version"))
    assert "content was  and is another version" in _refused(Invalid, lambda: changed.load_state_dict(state))


def what_no_tensor_holds_is_refused_or_given_as_a_list(folder):
    source = _source(folder)
    for fed, said in (
        (Fed(columns=["id", "name"]), "Column 'name' holds neither"),
        (Fed(features=["id", "name"]), "Column 'name' holds neither"),
        (Fed(columns=["nope"]), "There is no column 'nope'"),
        (Fed(columns=["id"], features=["half"]), "not both"),
        (Fed(target="id"), "without features"),
        (Fed(columns=["id"], batch_size=0), "at least one row"),
    ):
        assert said in _refused(Invalid, lambda fed=fed: torch_batches(source, fed))
    for batch in torch_batches(source, Fed(columns=["id"], lists=["name"], batch_size=64, shuffle=True)):
        assert batch["name"] == [f"row {one}" for one in batch["id"].tolist()]
    said = _refused(Invalid, lambda: list(torch_batches(source, Fed(columns=["gaps"]))))
    assert "Column 'gaps' has nulls" in said


def parts_made_before_a_column_was_renamed_and_another_added_are_read(folder):
    before = _table(500).select(["id", "half"])
    now = pa.schema([("number", pa.int64()), ("half", pa.float64()), ("late", pa.float32())])
    parts = []
    for part in _sealed(folder, before):
        fields = {name: getattr(part, name) for name in ("object_id", "key", "fetch", "seek")}
        parts.append(SealedPart(renamed={"id": "number"}, **fields))
    (batch,) = torch_batches(GroupArrays(from_arrow(now), parts), Fed(batch_size=500))
    assert batch["number"].tolist() == list(range(500))
    assert batch["late"].dtype == torch.float32
    assert torch.isnan(batch["late"]).all()


def a_part_that_was_changed_gives_no_batch_and_is_named(folder):
    source = _source(folder)
    file = sorted(folder.iterdir())[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    every = [name for name in source.dtypes if name not in ("name", "gaps")]
    batches = torch_batches(source, Fed(columns=every, lists=["name", "gaps"], batch_size=64))
    assert file.stem in _refused(Altered, lambda: list(batches))


def a_session_that_was_killed_within_an_epoch_goes_on_with_the_batches_it_would_have_had(folder):
    table = _table()
    sealed = _sealed(folder, table)
    whole, broken = folder / "whole", folder / "broken"
    for place, deaths in ((whole, ()), (broken, (5, 24, 41))):  # 24 steps are an epoch
        place.mkdir()
        for dies_at in deaths:
            assert in_a_fork(lambda dies_at=dies_at: _trained(broken, table, sealed, dies_at)) == -signal.SIGKILL
        assert in_a_fork(lambda place=place: _trained(place, table, sealed)) == 0
    lines = {place: (place / "told").read_text().splitlines() for place in (whole, broken)}
    expected, found = ({int(line.split()[0]): line for line in lines[place]} for place in (whole, broken))
    assert found == expected
    assert len(found) == 72 < len(lines[broken])
    epochs = [[line.split()[3] for line in lines[whole][start : start + 24]] for start in (0, 24, 48)]
    for epoch in epochs:
        assert sorted(_flat(map(int, batch.split(",")) for batch in epoch)) == list(range(ROWS))
    assert epochs[0] != epochs[1] != epochs[2]


def _trained(place, table, sealed, dies_at=0):
    """The program of an author; what he was given, told by steps."""
    torch.manual_seed(3)
    model = nn.Linear(2, 1)
    saves = Saves(folder=place / "kept", key=GivenKey(bytes(range(32))), every_seconds=0, every_steps=2)
    session = Session(Wishes(precision="float32", profile="off"), saves=saves, say=lambda sentence: None)
    session.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9))
    fed = Fed(features=["half", "small"], target="id", batch_size=128, shuffle=True, seed=7, buffer=500, content="digest")
    batches = torch_batches(GroupArrays(from_arrow(table.schema), sealed), fed)
    for epoch in session.epochs(3):
        for features, target in session.batches(batches):
            wanted = target[:, None] / ROWS
            loss = session.step(lambda model, rows, wanted: (model(rows / ROWS) - wanted).pow(2).mean(), features, wanted)
            with open(place / "told", "a") as file:
                file.write(f"{session.steps} {epoch} {loss.item().hex()} {','.join(map(str, target.tolist()))}\n")
            if session.steps == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
    session.finish()
