"""A real PKCS#11 token: SoftHSM, in a folder of its own."""

import os
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.processes import Missing, program

MODULES = ("/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so", "/usr/local/lib/softhsm/libsofthsm2.so")


@dataclass(frozen=True)
class SoftHsm:
    module: str
    label: str
    pin: str
    env: dict[str, str]
    """What a process needs in its environment to see the token; this process has it already."""

    def new_token(self, label: str) -> None:
        """Another empty token with the same PIN."""
        command = [
            program("softhsm2-util"),
            "--init-token",
            "--free",
            "--label",
            label,
            "--pin",
            self.pin,
            "--so-pin",
            self.pin,
        ]
        subprocess.run(command, env={**os.environ, **self.env}, check=True, capture_output=True)


@pytest.fixture(scope="session")
def softhsm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftHsm]:
    """One for the session: a process loads the PKCS#11 library once, and with it the folder it was told first."""
    module = next((place for place in MODULES if Path(place).exists()), None)
    if module is None:
        raise Missing("SoftHSM")
    folder = tmp_path_factory.mktemp("softhsm")
    (folder / "tokens").mkdir()
    (folder / "softhsm2.conf").write_text(
        f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n"
    )
    hsm = SoftHsm(
        module=module, label="falaj-test", pin=secrets.token_hex(4), env={"SOFTHSM2_CONF": str(folder / "softhsm2.conf")}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOFTHSM2_CONF", hsm.env["SOFTHSM2_CONF"])
        hsm.new_token(hsm.label)
        yield hsm
