"""Container images as jobs name them: which of them may run here, what one is, and how it comes to this host.

An image is known by a name that says where it is from. What runs is what that name meant when the attempt began: its id.
"""

import json
import os
import pwd
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from falaj.jobs.running.locks import Unusable
from falaj.jobs.running.orders import Image

EVERY: Final = "*"
_HOST: Final = r"(?:localhost|(?=[^/]*[.:])[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?)"
_PART: Final = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_PLACE: Final = re.compile(rf"{_HOST}(?:/{_PART})*")
_NAME: Final = re.compile(rf"({_HOST}(?:/{_PART})+)(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?", re.ASCII)
_LAST: Final = 500
_ASKING: Final = 60.0  # seconds that podman has for an answer
_PULLING: Final = 1800.0
_LOOKS: Final = 0.1


class Kind(NamedTuple):
    """What is known of an image: its id, and what its makers want programs in it to see."""

    id: str
    variables: dict[str, str]


class Missing(Exception):
    """There is no such image, or nobody who could tell; with the line that says why."""


def is_place(text: str) -> bool:
    """Whether `text` can be a place that images may be from: `registry.example/team`, `localhost`, or `*` for every one."""
    return text == EVERY or _PLACE.fullmatch(text) is not None


def may_run(name: str, places: tuple[str, ...]) -> None:
    """Raises `Unusable` where an image is not from one of `places`, by whole parts of its name."""
    if not places:
        raise Unusable("this platform runs no container images: [jobs] images has to say where they may be from")
    match = _NAME.fullmatch(name)
    if match is None:
        raise Unusable(
            f"{name[:200]!r} does not say where an image is from: write it as registry.example/team/name:tag, or with "
            "@sha256:... (localhost/name for one made on the host)"
        )
    if not any(place == EVERY or f"{match[1]}/".startswith(f"{place}/") for place in places):
        raise Unusable(f"images may be from {', '.join(places)} here, and {name[:200]} is not")


def kind_of(image: Image, is_over: Callable[[], bool]) -> Kind | None:
    """What `image` means now, after it was pulled where it has to be and may be. None where `is_over` before that."""
    if not _is_here(image):
        if not image.pulls:
            raise Missing(f"the image {image.name} is not on this host, and is not pulled ([jobs] pull_images)")
        if not _pulled(image, is_over):
            return None
    found = _asked(image, "image", "inspect", image.name)
    if found.returncode:
        raise Missing(f"podman cannot read the image {image.name}: {_last_line(found.stderr)}")
    return read_kind(found.stdout)


def read_kind(text: str) -> Kind:
    """From what `podman image inspect` says."""
    about: dict[str, Any] = json.loads(text)[0]
    told = (about.get("Config") or {}).get("Env") or []
    return Kind(about["Id"].removeprefix("sha256:"), dict(one.partition("=")[::2] for one in told if one.partition("=")[0]))


def surroundings() -> dict[str, str]:
    """All that podman sees of our own environment."""
    home = pwd.getpwuid(os.geteuid()).pw_dir
    own = {"PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"), "HOME": home, "LANG": "C.UTF-8"}
    runtime = f"/run/user/{os.geteuid()}"
    return own | ({"XDG_RUNTIME_DIR": runtime} if os.geteuid() and Path(runtime).is_dir() else {})


def _is_here(image: Image) -> bool:
    found = _asked(image, "image", "exists", image.name)
    if found.returncode > 1:
        raise Missing(f"podman does not work on this host: {_last_line(found.stderr)}")
    return found.returncode == 0


def _asked(image: Image, *words: str) -> subprocess.CompletedProcess[str]:
    command = [image.podman, *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, env=surroundings(), timeout=_ASKING, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"podman does not answer: {error}") from None


def _pulled(image: Image, is_over: Callable[[], bool]) -> bool:
    """False where it is over before."""
    waited, words = 0.0, ""
    process = subprocess.Popen(
        [image.podman, "pull", "--quiet", image.name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(),
    )
    with process:
        while True:
            try:
                _, words = process.communicate(timeout=_LOOKS)
                break
            except subprocess.TimeoutExpired:
                waited += _LOOKS
            if is_over() or waited > _PULLING:
                process.kill()
                if waited > _PULLING:
                    raise Missing(f"the image {image.name} could not be pulled within {_PULLING:.0f} seconds")
                return False
    if process.returncode:
        raise Missing(f"the image {image.name} cannot be pulled: {_last_line(words)}")
    return True


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].removeprefix("Error: ")[:_LAST] if lines else "it says nothing"
