"""Files of labels: what they are is found, what is wrong in them is told by its line, and what was sent counts once."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid, TooLarge, Unavailable
from falaj.cli.commands.labels import _quality, _told
from falaj.cli.label_files import rows_of
from falaj.cli.layout import Layout
from falaj.client.labelling import Sender, Summary, label_of
from falaj.monitoring.operations.labels import Added, AddLabels, Bucket, Figure, Gap, Label, Quality
from tests.cli.conftest import Running


def read(text: str | bytes, format: str = "") -> list[tuple[int, dict[str, object]]]:
    content = text.encode() if isinstance(text, str) else text
    return [(line, dict(row)) for line, row in rows_of(io.BytesIO(content), "-", format)]


def test_csv_json_lines_and_parquet_say_the_same(tmp_path: Path):
    want = [Label(id="a", row=1, truth=1, values={"spent": 2.5}), Label(id="b", truth="yes")]
    delimited = "\ufeffid,row,truth,spent\na,1,1,2.5\nb,,yes,\n"
    lines = '{"id": "a", "row": 1, "truth": 1, "spent": 2.5}\n\n{"id": "b", "truth": "yes"}\n'
    assert [label_of(row, line) for line, row in read(delimited)] == want
    assert [label_of(row, line) for line, row in read(lines)] == want
    table = pa.table({"id": ["a", "b"], "row": [1, None], "truth": ["1", "yes"], "spent": [2.5, None]})
    pq.write_table(table, tmp_path / "labels.parquet")
    assert [label_of(row, line) for line, row in read((tmp_path / "labels.parquet").read_bytes())] == want
    with (tmp_path / "labels.parquet").open("rb") as stream:
        assert len(list(rows_of(stream, str(tmp_path / "labels.parquet")))) == 2


def test_entities_are_columns_of_their_own_and_moments_have_an_offset():
    (line, row), *_ = read("entity.customer,entity.shop,at,truth\n17,Sur,2026-11-15T09:30:00+04:00,1e-3\n")
    assert label_of(row, line) == Label(
        entity={"customer": "17", "shop": "Sur"}, at=Moment.parse("2026-11-15T05:30:00Z"), truth=0.001
    )
    nested = {"entity": {"customer": 17}, "at": 1_794_733_800, "values": {"spent": 3}}
    assert label_of(nested, 1) == Label(
        entity={"customer": "17"}, at=Moment.parse("2026-11-15T09:10:00Z"), values={"spent": 3.0}
    )


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"truth": 1}, "Line 7 must name its prediction"),
        ({"id": "a", "entity.c": "1", "at": "x", "truth": 1}, "Line 7 must name its prediction"),
        ({"entity.c": "1", "truth": 1}, "no moment"),
        ({"entity.c": "1", "at": "yesterday", "truth": 1}, "Line 7: `at` must be a moment"),
        ({"entity.c": "1", "at": "2026-11-15T09:30:00", "truth": 1}, "with its offset"),
        ({"id": "a"}, "Line 7 says nothing"),
        ({"id": "a", "city": "Sur"}, "'city' holds 'Sur', which is no number"),
        ({"id": "a", "truth": 1, "row": 1.5}, "row must be a whole number"),
        ({"id": "a", "values": 3}, "`values` must be an object"),
    ],
)
def test_a_row_that_makes_no_sense_is_told_by_its_line(row: dict[str, object], words: str):
    with pytest.raises(Invalid, match=words):
        label_of(row, 7)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "first line must name columns"),
        ("id,truth\na\n", "Line 2 has not as many fields"),
        ("id,truth\na,1,2\n", "Line 2 has not as many fields"),
        ('id,truth\n"a,1\n', "cannot be read as CSV"),
        (b"id,truth\n\xff,1\n", "not UTF-8"),
        ('{"id": 1}\n[1]\n', "Line 2 is no JSON object"),
        ("{" * 5000, "Line 1 is no JSON object"),
        (b"PAR1 and nothing else", "no Parquet file"),
        ("", "first line must name columns"),
    ],
)
def test_a_file_that_is_none_is_told_so(text: str | bytes, words: str):
    with pytest.raises(Invalid, match=words):
        read(text)


class Platform:
    """Answers as told, and keeps what came."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.asked = list(answers), list[AddLabels]()

    def call(self, _: object, request: AddLabels) -> Added:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Added)
        return answer


def rows(count: int) -> list[tuple[int, dict[str, object]]]:
    return [(number + 2, {"id": str(number), "truth": 1}) for number in range(count)]


def test_labels_go_in_requests_of_a_thousand_and_again_where_the_platform_is_busy_or_somebody_was_quicker():
    busy, quicker = Unavailable("busy", delay=0.0), Conflict("send these again")
    first = Added(taken=1000, repeated=0, refused=0, unknown=0)
    last = Added(taken=0, repeated=400, refused=1, unknown=1, refused_at=(3,), unknown_at=(0,), remarks=("r",))
    platform = Platform(busy, first, quicker, last)
    counted: list[int] = []
    found = Sender(platform, "p", "scores").send(rows(1402), lambda summary: counted.append(summary.sent))  # type: ignore[arg-type]
    assert [len(one.labels) for one in platform.asked] == [1000, 1000, 402, 402]
    assert (found.taken, found.repeated, found.refused_lines, found.unknown_lines) == (1000, 400, [1005], [1002])
    assert counted == [1000, 1402]


def test_labels_that_are_too_much_for_one_request_go_in_two():
    taken = Added(taken=2, repeated=0, refused=0, unknown=1, unknown_at=(0,))
    platform = Platform(TooLarge("more than a MiB"), taken, taken)
    found = Sender(platform, "p", "scores").send(rows(6))  # type: ignore[arg-type]
    assert [len(one.labels) for one in platform.asked] == [6, 3, 3]
    assert (found.sent, found.unknown_lines) == (6, [2, 5])
    with pytest.raises(TooLarge):
        Sender(Platform(TooLarge("more than a MiB")), "p", "scores").send(rows(1))  # type: ignore[arg-type]


def test_what_goes_wrong_later_says_how_much_was_sent():
    platform = Platform(Added(taken=1000, repeated=0, refused=0, unknown=0))
    wrong = [*rows(1000), (1002, {"id": "", "truth": 1})]
    with pytest.raises(Invalid, match=r"Line 1002 .* 1,000 labels before were sent; to send them again is harmless"):
        Sender(platform, "p", "scores").send(wrong)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="No label was sent"):
        Sender(Platform(), "p", "scores").send([(2, {})])  # type: ignore[arg-type]


def test_people_are_told_which_lines_were_refused(capsys: pytest.CaptureFixture[str]):
    found = Summary(taken=5, refused=22, unknown=1, refused_lines=list(range(20)), unknown_lines=[9], remarks=["Why."])
    assert _told(found) == [
        "5 taken, 0 known already, 22 refused, 1 unknown.",
        f"Refused, for something else was said before: lines {', '.join(map(str, range(20)))} and 2 more.",
        "Of predictions that nobody knows: line 9.",
        "Why.",
    ]
    figure = Figure(name="accuracy", at=0.91234, low=0.9, high=0.92, rows=100)
    gap = Gap(slice="city", figure="right", lowest="Sur", highest="Nizwa", difference=figure, left_out=("2 groups",))
    off = replace(gap, figure="MAE", difference=Figure(name="MAE", at=2.5, low=1.25, high=3.75, rows=100))
    bucket = Bucket(revision=3, at=Moment(0), rows=100, kind="classes", figures=(figure,), gaps=(gap, off))
    _quality(Layout(), Quality(items=(bucket,), labels=1, unknown=0, left_out=4, remarks=("A remark.",)), whole=False)
    shown = capsys.readouterr().out
    assert "0.9123 (0.9 to 0.92)" in shown
    assert "by city: 'Nizwa' is predicted rightly 91.2 points more often than 'Sur' (90.0 to 92.0)" in shown
    assert "by city: the MAE of 'Nizwa' is 2.5 (1.25 to 3.75) larger than that of 'Sur'; not judged: 2 groups." in shown
    assert "4 older rows are not looked at." in shown


def test_an_endpoint_that_is_not_there_is_told_and_nothing_is_sent(platform: Running, tmp_path: Path):
    (tmp_path / "many.csv").write_text("id,truth\n" + "".join(f"{number},1\n" for number in range(3000)))
    assert "no endpoint 'absent'" in platform.fails("labels", "add", "absent", str(tmp_path / "many.csv"))
    assert "no endpoint 'absent'" in platform.fails("labels", "add", "absent", input='{"id": "a", "truth": 1}\n')
    assert "Line 2" in platform.fails("labels", "add", "absent", input="id,truth\n,1\n", status=2)
    assert "no endpoint 'absent'" in platform.fails("labels", "quality", "absent")
    assert json.loads(platform.both("labels", "add", "absent", "--json", input="id,truth\n")[0])["taken"] == 0
