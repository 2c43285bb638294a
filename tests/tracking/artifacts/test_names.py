"""Names that try to leave their run, and the laws that listings and headers rest on."""

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from falaj.base.errors import Invalid
from falaj.tracking.artifacts.names import (
    LONGEST,
    MOST_BYTES,
    below,
    checked,
    checked_folder,
    cursor_behind,
    folders_above,
    read_cursor,
    right_behind,
    saved_as,
)

NASTY = ["/", "\\", ".", "..", "%2e", "%2f", "\x00", "\n", "\r", '"', "'", ";", "~", "C:", "\u202e", "\u2028", "\x85", "a", "é"]
PART = some.text(some.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters="/\\"), min_size=1, max_size=8)
NAMES = some.lists(PART.filter(lambda part: part not in (".", "..")), min_size=1, max_size=5).map("/".join)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/",
        "/etc/passwd",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/..",
        "a/../b",
        "a/./b",
        "./a",
        "a\\b",
        "..\\a",
        "C:\\a",
        "a\x00b",
        "a\nb",
        "a\r\nSet-Cookie: x",
        "a\n",
        "..\n",
        "a\x7f",
        "a\x85b",
        "a\u2028b",
        "a\ud800b",
        "a" * (LONGEST + 1),
        "\U0001f600" * (MOST_BYTES // 4 + 1),
    ],
)
def test_a_name_that_could_mean_anything_but_a_file_of_its_holder_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="artifact name"):
        checked(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "a",
            "model/MLmodel",
            "...",
            "..a",
            "a..",
            ".hidden",
            "a/.b/..c",
            " ",
            "a b",
            "~",
            "C:",
            "$(x)",
            "'; drop table",
            "*",
        ),
        *("%2e%2e", "%2e%2e%2fa", "a%00b", "a%2fb", "a?b#c", "تقرير/ملف.pdf", "a" * LONGEST),
    ],
)
def test_everything_else_is_taken_literally(name: str) -> None:
    assert checked(name) == name


@given(some.lists(some.sampled_from(NASTY), max_size=8).map("".join) | some.text(max_size=20))
@example("..%2f..")
def test_what_is_accepted_stays_below_where_it_is_put(name: str) -> None:
    try:
        checked(name)
    except Invalid:
        return
    assert posixpath.normpath(f"/run/{name}") == f"/run/{name}"
    assert name.isprintable() or not any(character in name for character in "\x00\r\n\\")
    assert name.encode().decode() == name
    if unquote(name) != name:
        assert checked(name) == name  # it was never decoded


@given(NAMES)
def test_what_is_well_formed_is_accepted(name: str) -> None:
    assert checked(name) == checked_folder(name) == name
    assert read_cursor(cursor_behind(name)) == name
    assert read_cursor(cursor_behind(f"{name}/")) == f"{name}/"


@given(NAMES, NAMES)
def test_a_folder_is_a_range_of_names(folder: str, name: str) -> None:
    for other in (name, f"{folder}/{name}", folder + name, folder[:-1] + name):
        least, until = below(folder)
        assert (least <= other < until) == other.startswith(f"{folder}/")
        assert (folder in folders_above(other)) == other.startswith(f"{folder}/")


@given(NAMES, NAMES)
def test_behind_an_entry_comes_all_that_is_greater_and_not_in_it(entry: str, name: str) -> None:
    for other in (name, f"{entry}/{name}", entry + name, entry):
        assert (other >= right_behind(entry)) == (other > entry)
        assert (other >= right_behind(f"{entry}/")) == (other > f"{entry}/" and not other.startswith(f"{entry}/"))


@given(some.text(min_size=1))
def test_the_name_a_download_is_saved_as_cannot_break_a_header(name: str) -> None:
    saved = saved_as(name)
    assert saved.isascii()
    assert saved.isprintable()
    assert not set(saved) & set("\"'\\/;%:*?<>|$& ")
    assert len(saved) <= 200


@given(some.text(alphabet="abcXYZ019-_=+/ é\x00", max_size=40))
@pytest.mark.parametrize("made", ["Li4vYQ", "YQBi", "////", "Lw", "=", "e30"])
def test_a_cursor_that_was_never_given_out_is_refused(made: str, text: str) -> None:
    for cursor in (made, text):
        try:
            name = read_cursor(cursor)
        except Invalid as refused:
            assert "start again" in str(refused)  # noqa: PT017
        else:
            assert name == "" or checked(name.removesuffix("/"))
