"""Environments from lock files, built for real from wheels written here."""

import base64
import hashlib
import os
import time
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.jobs.engines.engine import Environment
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import PackageSource, Site
from falaj.jobs.running import environments, locks
from tests.jobs.engines.local import WAYS, ended, found_by, launched, logged


def write_wheel(folder, name, version, text):
    """Of one module, and a program that prints the same."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"WORD = {text!r}\n\ndef main():\n    print(WORD)\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": f"[console_scripts]\nsay-{name} = {name}:main\n",
    }
    digests = {n: base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b"=").decode() for n, t in files.items()}
    lines = [f"{n},sha256={digests[n]},{len(t.encode())}" for n, t in files.items()]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for n, t in files.items():
            wheel.writestr(n, t)
        wheel.writestr(f"{about}/RECORD", "\n".join([*lines, f"{about}/RECORD,,", ""]))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def wheels(tmp_path):
    folder = tmp_path / "wheels"
    folder.mkdir()
    return folder


@pytest.fixture(params=WAYS)
def engine(request, tmp_path, wheels):
    source = PackageSource(indexes=(), folders=(wheels,))
    return LocalEngine(tmp_path / "jobs", Site(zone="here", packages=source, **WAYS[request.param]))


def test_a_lock_makes_an_environment_once(engine, tmp_path, wheels):
    digest = write_wheel(wheels, "greeting", "1.5", "peace")
    lock = f"# what we need\ngreeting==1.5 \\\n    --hash=sha256:{digest}\n"
    code = """
import importlib.util, subprocess, sys, greeting
found += [greeting.WORD, subprocess.run(["say-greeting"], capture_output=True, text=True).stdout.strip(), sys.prefix]
found.append(importlib.util.find_spec("falaj") is None)
try:
    open(greeting.__file__, "a")
    found.append("written")
except OSError:
    pass
"""
    for _ in range(2):
        assert found_by(engine, code, environment=Environment(lock=lock)) == ["peace", "peace", "/environment", True]
    made = [path.name for path in (tmp_path / "jobs" / "environments").iterdir() if path.is_dir()]
    assert len(made) == 1
    told = [logged(engine, seen.attempt) for seen in engine.look()]
    assert sorted("making the environment" in text for text in told) == [False, True]


def test_what_cannot_be_made_says_pips_last_word(wheels, tmp_path):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", packages=PackageSource(indexes=(), folders=(wheels,))))
    write_wheel(wheels, "greeting", "1.5", "peace")
    wrong = {
        "greeting==2.0": "No matching distribution found for greeting==2.0",
        "greeting==1.5 --hash=sha256:" + "0" * 64: "Got",
    }
    for lock, words in wrong.items():
        attempt = launched(engine, "true", environment=Environment(lock=lock))
        end = ended(engine, attempt)
        assert end.cause == "environment"
        assert words in end.words
        assert end.started is None
    assert not [path for path in (tmp_path / "jobs" / "environments").iterdir() if path.is_dir()]


def test_many_that_need_the_same_environment_make_it_once(tmp_path, wheels):
    write_wheel(wheels, "greeting", "1.5", "peace")
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", packages=PackageSource(indexes=(), folders=(wheels,))))
    lock = Environment(lock="greeting==1.5")
    attempts = [launched(engine, "say-greeting", environment=lock) for _ in range(3)]
    assert [ended(engine, attempt).cause for attempt in attempts] == ["done"] * 3
    assert sum("making the environment" in logged(engine, attempt) for attempt in attempts) == 1


@pytest.mark.parametrize(
    "line",
    [
        *(
            "numpy",
            "numpy>=2",
            "numpy==2.*",
            "-e .",
            "-r other.txt",
            "--index-url https://elsewhere",
            "--find-links /",
            "./local.whl",
        ),
        *(
            "pkg @ https://elsewhere/pkg.whl",
            "numpy==2.0 --global-option=x",
            "numpy==2.0 ; python_version>'3' --global-option=x",
            "numpy==2.0;python_version>'3'\t--config-settings=x",
            "numpy==1 --hash=md5:00",
            "git+https://elsewhere/x",
        ),
    ],
)
def test_a_lock_names_versions_and_nothing_else(line):
    with pytest.raises(locks.Unusable, match="line 2"):
        locks.checked(f"six==1.16.0\n{line}\n")


def test_what_a_lock_may_say():
    lock = "\n# pinned\n--require-hashes\nA_b.c==1.0.post1+cu12 ; python_version >= '3.9'  # why\nd[e, f]===2!1.0\n"
    assert locks.checked(lock) == "A_b.c==1.0.post1+cu12 ; python_version >= '3.9'\nd[e, f]===2!1.0\n"


@given(st.text(alphabet="ab=1.-#\\\n ;@/[]", max_size=60))
def test_whatever_passes_is_lines_of_names_with_versions(text):
    try:
        told = locks.checked(text)
    except locks.Unusable:
        return
    assert all("==" in line and not line.startswith(("-", ".", "/")) for line in told.splitlines() if line)


def test_unused_environments_are_removed_and_used_ones_kept(tmp_path):
    now = time.time()
    for number, (age, size) in enumerate([(40, 10), (3, 400), (2, 400), (1, 400)]):
        with environments.making(f"e{number}", environments_of(tmp_path)) as place:
            environments.finish(place, size)
        os.utime(tmp_path / f"e{number}" / "ready.json", (now - age * 86_400,) * 2)
    held = environments.taken("e1", tmp_path)
    os.utime(tmp_path / "e1" / "ready.json", (now - 3 * 86_400,) * 2)
    # The first for its age; the second would go for its size, but somebody uses it, so the third does.
    assert environments.tidy(tmp_path, 1000) == ["e0", "e2"]
    held.close()
    assert environments.taken("e2", tmp_path) is None
    assert environments.tidy(tmp_path, 1000) == []


def environments_of(tmp_path):
    assert environments.taken("none", tmp_path) is None
    return tmp_path
