"""Amounts as people write them, and as they read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.cli.amounts import amount_told, fraction_of, memory_told, mib_of, seconds_of, span_told


@pytest.mark.parametrize(
    ("text", "mib"),
    [("512", 512), ("512MiB", 512), ("512m", 512), ("16G", 16_384), ("16 GiB", 16_384), ("1.5tb", 1_572_864), ("0.5g", 512)],
)
def test_memory_is_read_with_and_without_its_unit(text: str, mib: int):
    assert mib_of(text) == mib


@pytest.mark.parametrize("text", ["", "GiB", "-1G", "1e3", "16K", "nan", "1,5G", "16 Gi b", "٤G"])
def test_what_is_no_amount_of_memory_says_how_to_write_one(text: str):
    with pytest.raises(Invalid, match="is no amount of memory; write it like 512MiB or 16GiB"):
        mib_of(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400), ("1.5 h", 5400), ("0", 0)]
)
def test_lengths_of_time_are_read_with_and_without_their_unit(text: str, seconds: int):
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "1w", "1h30m", "soon", "1 M"])
def test_what_is_no_length_of_time_says_how_to_write_one(text: str):
    with pytest.raises(Invalid, match="is no length of time; write it like 90s, 15m, 2h or 1d"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.4, "0 s"), (-5, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90_000, "1 d 1 h")],
)
def test_lengths_of_time_are_told_in_two_units(seconds: float, words: str):
    assert span_told(seconds) == words


@given(st.integers(0, 10**9))
def test_what_is_told_of_a_length_of_time_can_be_read_again_unit_by_unit(seconds: int):
    words = span_told(seconds).replace(" min", "m").replace(" s", "s").replace(" h", "h").replace(" d", "d").split()
    read = sum(seconds_of(word) for word in words)
    assert read <= seconds < read + (3600 if seconds >= 86_400 else 60 if seconds >= 3600 else 1)


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [("cpu", 1500, "1.5"), ("memory", 512, "512 MiB"), ("memory", 2048, "2.0 GiB"), ("gpu:H200", 500, "0.5"), ("io", 7, "7")],
)
def test_amounts_are_told_in_the_unit_of_their_resource(resource: str, amount: int, words: str):
    assert amount_told(resource, amount) == words
    assert memory_told(1023) == "1023 MiB"


@pytest.mark.parametrize(("text", "fraction"), [("0.1", 0.1), ("10%", 0.1), ("0", 0.0), ("100%", 1.0), ("1", 1.0)])
def test_shares_are_read_as_numbers_and_in_per_cent(text: str, fraction: float):
    assert fraction_of(text, "--floor") == pytest.approx(fraction)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("95", "--confidence 95 is more than all; .* Did you mean 95%"),
        ("101%", "--confidence 101% is more than all; .*sign.$"),
        ("-1%", "no share for --confidence"),
        ("nan", "no share for --confidence"),
        ("%", "no share for --confidence"),
    ],
)
def test_what_is_no_share_says_how_to_write_one(text: str, words: str):
    with pytest.raises(Invalid, match=words):
        fraction_of(text, "--confidence")
