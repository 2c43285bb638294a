"""A home that others could change is not used."""

import os
from pathlib import Path

import pytest

from falaj.app.home import Home
from falaj.base.errors import Conflict


def test_a_new_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = Home(path=tmp_path / "home")
    home.prepare()
    home.prepare()
    assert home.path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777])
@pytest.mark.parametrize("name", ["home", "home.keys"])
def test_a_directory_that_others_may_write_in_is_refused(tmp_path: Path, name: str, mode: int) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name).chmod(mode)
    with pytest.raises(Conflict, match="chmod go-w"):
        Home(path=tmp_path / "home").prepare()
    assert not (tmp_path / "home" / "blobs").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a directory away")
@pytest.mark.parametrize("name", ["home", "home.keys"])
def test_a_directory_of_another_user_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(mode=0o700)
    os.chown(tmp_path / name, 54321, -1)
    with pytest.raises(Conflict, match="another user"):
        Home(path=tmp_path / "home").prepare()
