"""A lost key ring: said at the start with the way back, and the way back works. Nothing is made anew over sealed data."""

import shutil
from pathlib import Path

import pytest

from falaj.keys.file import KIT, RING, UNLOCK_SECRET
from tests.app.conftest import MakePlatform
from tests.app.effects import Load, check, come_back, new_effect
from tests.app.mortal import MortalPlatform, run_falaj


@pytest.fixture
def stopped(make_platform: MakePlatform, tmp_path: Path) -> tuple[MortalPlatform, Load, Path]:
    """A platform that holds something, stopped, and a copy of its kit."""
    platform, load = make_platform().start(), Load()
    with platform.http() as http:
        for kind in ("blob", "blob", "project"):
            assert load.do(http, new_effect(kind))
    kit = tmp_path / "kit.txt"
    kit.write_bytes((platform.home.keys / KIT).read_bytes())
    assert platform.stop() == 0
    return platform, load, kit


def refused_start(platform: MortalPlatform) -> str:
    """The one line that `falaj up` says instead of starting."""
    told = platform.falaj("up", "--port", "0")
    assert told.returncode == 1, told.stdout
    assert told.stdout == ""
    assert told.stderr.startswith("falaj: ")
    assert told.stderr.count("\n") == 1, told.stderr
    return told.stderr


def test_a_lost_key_directory_is_said_and_the_kit_brings_it_back(stopped: tuple[MortalPlatform, Load, Path]):
    platform, load, kit = stopped
    platform.home.keys.rename(platform.home.keys.with_name("lost"))
    said = refused_start(platform)
    assert "falaj key recover --kit" in said
    assert str(platform.home.keys) in said
    assert not platform.home.keys.exists(), "a fresh ring over sealed data would have hidden the loss"
    back = platform.falaj("key", "recover", "--kit", str(kit))
    assert back.returncode == 0, back.stderr
    come_back(platform)
    check(platform, load)
    with platform.http() as http:
        assert load.do(http, new_effect("blob"))
    check(platform, load)


def test_the_directory_put_back_works_as_before(stopped: tuple[MortalPlatform, Load, Path]):
    platform, load, _ = stopped
    platform.home.keys.rename(platform.home.keys.with_name("lost"))
    refused_start(platform)
    platform.home.keys.with_name("lost").rename(platform.home.keys)
    come_back(platform)
    check(platform, load)


@pytest.mark.parametrize("lost", [RING, UNLOCK_SECRET])
def test_one_file_of_it_lost_is_said_too(stopped: tuple[MortalPlatform, Load, Path], lost: str):
    platform, load, kit = stopped
    (platform.home.keys / lost).unlink()
    assert "falaj key recover --kit" in refused_start(platform)
    platform.home.keys.rename(platform.home.keys.with_name("damaged"))
    assert platform.falaj("key", "recover", "--kit", str(kit)).returncode == 0
    come_back(platform)
    check(platform, load)


def test_a_wrong_code_is_refused_and_makes_no_ring(stopped: tuple[MortalPlatform, Load, Path], make_platform: MakePlatform):
    platform, load, kit = stopped
    platform.home.keys.rename(platform.home.keys.with_name("lost"))
    other = make_platform("other").start()
    wrong = {
        "of another ring": (other.home.keys / KIT).read_text(),
        "mistyped": kit.read_text().replace("FALAJ1-", "FALAJ1-AAAA-"),
        "no kit at all": "nothing to see here\n",
    }
    for what, text in wrong.items():
        sheet = kit.with_name("wrong.txt")
        sheet.write_text(text)
        told = platform.falaj("key", "recover", "--kit", str(sheet))
        assert told.returncode == 2, f"{what}: {told.stdout}"
        assert told.stderr.startswith("falaj: "), what
        assert not (platform.home.keys / RING).exists(), what
    refused_start(platform)
    assert platform.falaj("key", "recover", "--kit", str(kit)).returncode == 0
    come_back(platform)
    check(platform, load)


def test_the_ring_of_another_home_is_refused_and_nothing_is_changed(
    stopped: tuple[MortalPlatform, Load, Path], make_platform: MakePlatform
):
    platform, load, _ = stopped
    other = make_platform("other").start()
    other.stop()
    platform.home.keys.rename(platform.home.keys.with_name("lost"))
    shutil.copytree(other.home.keys, platform.home.keys)
    escrow, database = platform.home.escrow.read_bytes(), platform.home.database.read_bytes()
    said = refused_start(platform)
    assert "another" in said
    assert str(platform.home.keys) in said
    assert platform.home.escrow.read_bytes() == escrow, "the only way back to the right keys was overwritten"
    assert platform.home.database.read_bytes() == database
    shutil.rmtree(platform.home.keys)
    platform.home.keys.with_name("lost").rename(platform.home.keys)
    come_back(platform)
    check(platform, load)


def test_lost_while_it_runs_reading_goes_on_and_the_next_start_says_so(stopped: tuple[MortalPlatform, Load, Path]):
    platform, load, kit = stopped
    come_back(platform)
    platform.home.keys.rename(platform.home.keys.with_name("lost"))
    with platform.http() as http:
        blob = http.get("/v1/projects/default/blobs").json()["items"][0]
        assert http.get(f"/v1/projects/default/blobs/{blob['id']}/content").status_code == 200
        refused = http.post("/v1/projects", json={"name": "needs-a-key", "zones": ["home"]})
        assert refused.status_code >= 400
        assert "recover" in refused.json()["detail"]
        assert "needs-a-key" not in [each["name"] for each in http.get("/v1/projects").json()["items"]]
    platform.kill()
    refused_start(platform)
    assert platform.falaj("key", "recover", "--kit", str(kit)).returncode == 0
    come_back(platform)
    check(platform, load)


def test_recovering_is_refused_while_the_platform_runs_and_over_a_ring_that_is_there(
    stopped: tuple[MortalPlatform, Load, Path],
):
    platform, load, kit = stopped
    there = platform.falaj("key", "recover", "--kit", str(kit))
    assert there.returncode == 1
    assert "move it away" in there.stderr
    come_back(platform)
    running = platform.falaj("key", "recover", "--kit", str(kit))
    assert running.returncode == 1
    assert "falaj down" in running.stderr
    check(platform, load)


def test_a_home_that_is_new_says_nothing_of_loss(tmp_path: Path):
    told = run_falaj("key", "recover", "--kit", str(tmp_path / "none.txt"), home=tmp_path / "home")
    assert told.returncode != 0
    assert "Traceback" not in told.stderr
