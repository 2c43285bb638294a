"""From hardware, model and wishes to a recipe. None of this needs torch."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.training import Facts, Hardware, Wishes, choose
from falaj.training.hardware import GIB, peaks_of
from falaj.training.recipes import Recipe, safer

H200 = Hardware(kind="cuda", name="NVIDIA H200", memory=140 * GIB, cores=16, capability=(9, 0), bfloat16=True, compiler=True)
T4 = Hardware(kind="cuda", name="Tesla T4", memory=15 * GIB, capability=(7, 5), compiler=True)
LAPTOP = Hardware(kind="cpu", memory=16 * GIB, cores=8, compiler=True)
GPT2 = Facts(parameters=124_000_000, embeddings=True, widest_output=50257, odd_outputs=(50257,))
RESNET = Facts(parameters=25_000_000, convolutions=True, batch_norms=True, widest_output=1000, odd_outputs=(1000,))


def values(recipe: Recipe) -> dict[str, object]:
    return {name: choice.value for name, choice in recipe}


def test_a_language_model_on_a_large_gpu_gets_everything_that_pays():
    assert values(choose(H200, GPT2)) == {
        "precision": "bfloat16",
        "compiled": True,
        "attention": "measured",
        "fused_optimiser": True,
        "channels_last": False,
        "fused_loss": True,
        "padded_outputs": 128,
        "lean_residuals": True,
        "micro_batch": 0,
        "checkpointing": False,
        "strategy": "single",
        "loader_workers": 0,
        "guarded_steps": 3,
    }


def test_a_network_of_convolutions_gets_its_channels_last_and_no_rewriting():
    chosen = values(choose(H200, RESNET))
    assert chosen["channels_last"]
    assert not chosen["fused_loss"]
    assert chosen["padded_outputs"] == 1


def test_a_gpu_without_bfloat16_gets_float16():
    assert choose(T4, GPT2).precision.value == "float16"


def test_a_cpu_gets_what_its_author_wrote():
    chosen = values(choose(LAPTOP, GPT2))
    assert chosen["precision"] == "float32"
    assert not any(chosen[name] for name in ("compiled", "fused_optimiser", "fused_loss", "lean_residuals", "guarded_steps"))


def test_a_cpu_that_multiplies_bfloat16_does():
    assert choose(dataclasses.replace(LAPTOP, bfloat16=True), GPT2).precision.value == "bfloat16"


def test_a_model_too_large_for_one_device_is_shared_out():
    large = dataclasses.replace(GPT2, parameters=7_000_000_000)
    assert choose(dataclasses.replace(H200, count=8), large).strategy.value == "fsdp"
    assert choose(dataclasses.replace(H200, count=8), GPT2).strategy.value == "ddp"
    deep = dataclasses.replace(large, largest_block=20_000_000_000)
    recipe = choose(dataclasses.replace(H200, count=8), deep)
    assert recipe.strategy.value == "tensor"
    assert not recipe.compiled.value
    assert not recipe.fused_optimiser.value
    assert choose(H200, dataclasses.replace(GPT2, parameters=12_000_000_000)).checkpointing.value


@given(
    st.sampled_from([H200, T4, LAPTOP]),
    st.sampled_from([GPT2, RESNET]),
    st.fixed_dictionaries(
        {},
        optional={
            "precision": st.sampled_from(["float32", "bfloat16"]),
            "compiled": st.booleans(),
            "fused_optimiser": st.booleans(),
            "channels_last": st.booleans(),
            "padded_outputs": st.sampled_from([1, 64, 128]),
            "micro_batch": st.integers(0, 64),
            "guarded_steps": st.integers(0, 9),
        },
    ),
)
def test_every_wish_stands_and_every_choice_is_explained(hardware, facts, wished):
    recipe = choose(hardware, facts, Wishes(**wished))
    for name, wish in wished.items():
        assert getattr(recipe, name).value == wish
        assert getattr(recipe, name).why == "You asked for it."
    lines = recipe.explain().splitlines()
    assert len(lines) == len(dataclasses.fields(Recipe))
    assert all(line.endswith(".") for line in lines)


@pytest.mark.parametrize(
    ("hardware", "wishes", "says"),
    [
        (LAPTOP, Wishes(precision="float16"), "Ask for bfloat16 or float32"),
        (T4, Wishes(precision="tf32"), "Ask for float32"),
        (H200, Wishes(micro_batch=-1), "give a number of rows"),
        (H200, Wishes(guarded_steps=-3), "guarded steps -3 was asked for: give a number of steps, or 0"),
        (H200, Wishes(loader_workers=-1), "give a number of processes"),
        (H200, Wishes(padded_outputs=0), "or 1 to leave them"),
        (H200, Wishes(patience=-1), "a time above 0"),
        (H200, Wishes(patience=float("nan")), "a time above 0"),
        (H200, Wishes(precision="bf16"), "'bf16' was asked for, and there is none: ask for float32, tf32, bfloat16, float16"),
        (H200, Wishes(strategy="dp"), "ask for single, ddp, fsdp, tensor"),
        (H200, Wishes(attention="falsh"), "ask for measured, cudnn, flash"),
    ],
)
def test_a_wish_that_cannot_be_done_is_refused_with_what_can(hardware, wishes, says):
    with pytest.raises(Invalid, match=says):
        choose(hardware, GPT2, wishes)


def test_what_is_safer_is_float32_as_written_and_needs_no_guard():
    slower = safer(choose(H200, GPT2), "It departed.")
    assert slower is not None
    chosen = values(slower)
    assert (chosen["precision"], chosen["compiled"], chosen["guarded_steps"]) == ("float32", False, 0)
    assert slower.precision.why == "It departed."
    assert safer(slower, "Again.") is None


def test_peaks_are_those_of_the_most_special_name():
    assert peaks_of("NVIDIA H200")["bfloat16"] == 989e12
    assert peaks_of("NVIDIA H100 PCIe")["bfloat16"] == 756e12
    assert peaks_of("NVIDIA L40S")["bfloat16"] > peaks_of("NVIDIA L4")["bfloat16"]
    assert peaks_of("a card of tomorrow") == {}
