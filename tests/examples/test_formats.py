"""docs/formats.md: what it shows of files that no other page tells of is what the platform reads and writes."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

from falaj.base.clock import Moment
from falaj.base.ids import LeafId
from falaj.client.pipelines.continuous import Better, Canary, Settings, Small, Watch, settings_in
from falaj.governance.ledger.events import to_cloudevent
from falaj.governance.ledger.leaves import Leaf
from tests.examples.documents import File, read
from tests.mlflow.clients import ROOT

FORMATS = ROOT / "docs" / "formats.md"
PARTS = {"better": Better, "small": Small, "canary": Canary, "watch": Watch}


def test_the_file_of_a_continuous_project_is_read_and_names_all_there_is(tmp_path: Path):
    (shown,) = (item for item in read(FORMATS) if isinstance(item, File))
    (tmp_path / shown.name).write_text(shown.text)
    assert isinstance(settings_in(tmp_path / shown.name), Settings)
    told = tomllib.loads(shown.text)
    for part, kind in ((told, Settings), *((told[name], kind) for name, kind in PARTS.items())):
        assert set(part) == {field.name for field in fields(kind)}


def test_every_field_of_a_leafs_event_is_told():
    section = FORMATS.read_text().split("## CloudEvents of the ledger")[1].split("## ")[0]
    leaf = Leaf(
        id=LeafId("0" * 32),
        inserted=Moment(0),
        operation="zone.create",
        record="change",
        outcome="done",
        principal="0" * 32,
        project="",
        request={},
        facts={},
    )
    assert re.findall(r"^\| `([a-z]+)` \|", section, re.MULTILINE) == list(to_cloudevent(leaf, 0))
