"""The part of `falaj model` that is about optimised forms: variants, their certificates, and taking a model elsewhere."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from falaj.base.errors import Corrupt, Invalid
from falaj.cli.choosing import InProject, OfModel, OfVersion, project_of, version_of
from falaj.cli.command import Yes
from falaj.cli.naming import AT_ONCE, every
from falaj.cli.terminal import Terminal
from falaj.cli.transfers import STANDARD, agreeing, save, watched
from falaj.cli.variant_looks import certificate_shown, variants_listed
from falaj.optimisation.names import meant
from falaj.optimisation.operations.variants import (
    DELETE_VARIANT,
    LIST_VARIANTS,
    READ_VARIANT_FILE,
    SHOW_CERTIFICATE,
    ListVariants,
    OneVariant,
    ReadVariantFile,
    Variant,
    Variants,
)

OfVariant = Annotated[
    str, typer.Argument(help="The variant's name, as `falaj model variants` lists it, or its id.", show_default=False)
]
CERTIFICATE: Final = "certificate.json"
PUBLIC_KEY: Final = "certificate.pem"


def variants(
    terminal: Terminal,
    model: OfModel,
    version: Annotated[str, typer.Argument(help="One version, by number or alias.", show_default=False)] = "",
    project: InProject = "",
) -> None:
    """List the optimised forms of a model's versions: how much faster, how much worse, how large, certified or not.

    Example: falaj model variants card-fraud champion --project fraud
    """
    chosen = project_of(terminal, project)
    number = version_of(terminal, chosen, model, version) if version else 0
    terminal.show(Variants(items=tuple(_every(terminal, chosen, model, number)), next=""), variants_listed)


def certificate(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    variant: OfVariant,
    file: Annotated[
        str,
        typer.Option(help="Write the signed certificate there, and the key that verifies it beside it.", show_default=False),
    ] = "",
    project: InProject = "",
) -> None:
    """Show what was measured of a variant, on which rows, and whether it holds. Exits with 1 where it does not.

    Example: falaj model certificate card-fraud champion int8 --project fraud
    """
    chosen = project_of(terminal, project)
    found = terminal.call(SHOW_CERTIFICATE, _one(terminal, chosen, model, version, variant))
    if file:
        key = Path(file).with_suffix(".pem")
        if file == STANDARD or str(key) == file:
            raise Invalid(f"Name a file for the certificate that does not end in .pem, such as certificate.json: not {file!r}.")
        save([found.bundle.encode()], file)
        save([found.key.encode()], str(key))
    terminal.show(found, certificate_shown)
    if not found.valid:
        raise typer.Exit(1)


def export(
    terminal: Terminal,
    model: OfModel,
    version: OfVersion,
    variant: OfVariant,
    folder: Annotated[Path, typer.Argument(help="Where its files go; made where there is none.", show_default=False)],
    project: InProject = "",
) -> None:
    """Write a variant's files into a folder, with its certificate: ONNX, OpenVINO IR, whatever it is.

    A version is exported to another format by optimising it with that step alone, such as --only onnx or --only openvino.

    Example: falaj model export card-fraud champion int8 ./model --project fraud
    """
    chosen = project_of(terminal, project)
    one = _one(terminal, chosen, model, version, variant)
    listed = list(_every(terminal, chosen, model, one.version))
    chosen_one = meant(it for it in listed if variant in (it.id, it.name) and it.files)
    if chosen_one is None:
        there = sorted({it.name for it in listed if it.files})
        raise Invalid(f"Version {one.version} of {model!r} has no variant {variant!r}; it has {', '.join(there) or 'none'}.")
    folder.mkdir(parents=True, exist_ok=True)
    for file in chosen_one.files:
        read = ReadVariantFile(project=chosen, model=model, version=one.version, variant=chosen_one.id, file=file.name)
        if Path(file.name).name != file.name:
            raise Corrupt(
                f"The platform calls a file of {variant!r} {file.name!r}, which is no plain name; nothing is written."
            )
        answer = terminal.call(READ_VARIANT_FILE, read)
        save(watched(agreeing(answer.chunks, file.digest), file.size, file.name), str(folder / file.name))
    written = [file.name for file in chosen_one.files]
    if chosen_one.certificate:
        found = terminal.call(SHOW_CERTIFICATE, replace(one, variant=chosen_one.id))
        save([found.bundle.encode()], str(folder / CERTIFICATE))
        save([found.key.encode()], str(folder / PUBLIC_KEY))
        written += [CERTIFICATE, PUBLIC_KEY]
    told = {"folder": str(folder), "files": written, "runtime": chosen_one.runtime, "certified": bool(chosen_one.certificate)}
    terminal.told(
        told, f"Wrote {', '.join(written)} to {folder}: {chosen_one.runtime}, {'; '.join(chosen_one.notes) or chosen_one.name}"
    )


def delete(
    terminal: Terminal, model: OfModel, version: OfVersion, variant: OfVariant, yes: Yes = False, project: InProject = ""
) -> None:
    """Delete a variant with its files. What is deployed of it stays so, and what its certificate said stays known.

    Example: falaj model delete-variant card-fraud 3 int8 --yes --project fraud
    """
    chosen = project_of(terminal, project)
    terminal.confirm(f"Delete the variant {variant!r} and its files?", yes)
    one = _one(terminal, chosen, model, version, variant)
    terminal.call(DELETE_VARIANT, one)
    terminal.told({"deleted": variant}, f"Deleted {variant} of version {one.version}.")


def _every(terminal: Terminal, project: str, model: str, version: int) -> Iterator[Variant]:
    asked = ListVariants(project=project, model=model, version=version, limit=AT_ONCE)
    return every(lambda cursor: terminal.call(LIST_VARIANTS, replace(asked, cursor=cursor)))


def _one(terminal: Terminal, project: str, model: str, version: str, variant: str) -> OneVariant:
    return OneVariant(project=project, model=model, version=version_of(terminal, project, model, version), variant=variant)


COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "variants": variants,
    "certificate": certificate,
    "export": export,
    "delete-variant": delete,
}
