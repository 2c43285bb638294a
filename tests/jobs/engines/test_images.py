"""Which images may run, and what podman is told: all that can be known without running one."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Misconfigured
from falaj.jobs.engines.engine import Environment
from falaj.jobs.engines.local import LocalEngine
from falaj.jobs.engines.local_orders import Site
from falaj.jobs.running import containers, images, interpreters
from falaj.jobs.running.confined import Work
from falaj.jobs.running.limits import MIB, Most
from falaj.jobs.running.locks import Unusable
from falaj.jobs.running.orders import House, Image, understood, written
from falaj.jobs.running.walls import Inside, make_home
from tests.jobs.engines.local import ended, launched

_MOST = Most(1500, 256 * MIB, 100)
DIGEST = f"sha256:{'0a' * 32}"


@pytest.mark.parametrize(
    "name",
    [
        "registry.example/team/train",
        "registry.example/team/train:2.1",
        f"registry.example/team/train@{DIGEST}",
        f"registry.example/team/deep/er/train:2.1@{DIGEST}",
    ],
)
def test_an_image_from_a_named_place_may_run(name):
    images.may_run(name, ("localhost", "registry.example/team"))
    images.may_run(name, ("registry.example",))
    images.may_run(name, ("*",))


@pytest.mark.parametrize(
    "name",
    [
        "registry.example/team-of-others/train",
        "registry.example/teams/train",
        "registry.example/other/train",
        "registry.example.evil.org/team/train",
        "registry.example:5000/team/train",
        "localhost/team/train",
    ],
)
def test_a_name_that_only_begins_alike_is_from_elsewhere(name):
    with pytest.raises(Unusable, match=r"images may be from registry\.example/team here"):
        images.may_run(name, ("registry.example/team",))


@pytest.mark.parametrize(
    "name",
    [
        "ubuntu",  # podman would ask whoever the host's settings say
        "team/train:1",
        "0a" * 32,  # the id of any image of this host
        DIGEST,
        "docker-archive:/etc/shadow",
        "oci:/home:x",
        "docker://registry.example/team/train",
        "containers-storage:registry.example/team/train",
        "registry.example/team/../other/train",
        "registry.example/team/train:1 --privileged",
        "registry.example/team/train\n",
        "--privileged",
        "-v/:/host",
        "registry.example/team/train@sha256:abc",
        "",
    ],
)
def test_what_does_not_say_where_it_is_from_does_not_run_even_where_everything_may(name):
    with pytest.raises(Unusable, match="does not say where an image is from"):
        images.may_run(name, ("*",))


_BEGINNINGS = st.sampled_from(["registry.example/team/", "registry.example/team", "localhost/", "-", ""])


@settings(max_examples=50)
@given(_BEGINNINGS, st.text("ab0.-_/:@ \n\u0131", max_size=12), st.sampled_from(["registry.example/team", "localhost", "*"]))
def test_whatever_is_allowed_is_one_word_that_no_program_takes_for_an_option(beginning, rest, place):
    name = beginning + rest
    try:
        images.may_run(name, (place,))
    except Unusable:
        return
    assert name.isascii()
    assert name.split() == [name]
    assert name[0].isalnum()
    assert place == "*" or (name.startswith(place) and name[len(place) :][:1] in ("", "/", ":", "@"))


def test_no_image_runs_unless_the_operator_says_where_they_may_be_from(tmp_path):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here"))
    end = ended(engine, launched(engine, "true", environment=Environment(image="localhost/any:1")))
    assert (end.cause, end.started) == ("environment", None)
    assert "runs no container images" in end.words
    assert "[jobs] images" in end.words


def test_without_podman_one_is_told_what_is_missing(tmp_path, monkeypatch):
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", images=("localhost",)))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    end = ended(engine, launched(engine, "true", environment=Environment(image="localhost/any:1")))
    assert (end.cause, end.started) == ("environment", None)
    assert "there is no podman on this host: apt-get install podman" in end.words


@pytest.mark.parametrize(
    "place", ["", "ubuntu", "https://registry.example", "registry.example/", "registry.example/team:1", "**"]
)
def test_places_that_mean_nothing_are_refused_when_the_platform_starts(tmp_path, place):
    with pytest.raises(Misconfigured, match=r"jobs\.images"):
        LocalEngine(tmp_path / "jobs", Site(zone="here", images=(place,)))


def test_what_podman_says_of_an_image_is_understood():
    told = [{"Id": "0a" * 32, "Config": {"Env": ["PATH=/opt/bin:/bin", "EMPTY=", "A=b=c"]}}]
    assert images.read_kind(json.dumps(told)) == images.Kind("0a" * 32, {"PATH": "/opt/bin:/bin", "EMPTY": "", "A": "b=c"})
    assert images.read_kind(json.dumps([{"Id": f"sha256:{'0b' * 32}", "Config": {}}])).variables == {}


def test_an_image_s_own_variables_are_seen_but_not_in_place_of_ours():
    kind = images.Kind("0a" * 32, {"PATH": "/opt/bin", "HOME": "/root", "CUDA_HOME": "/cuda"})
    seen = containers.seen_inside(kind, {"PATH": "/ours", "HOME": "/job", "LANG": "C.UTF-8"})
    assert seen == {"PATH": "/opt/bin", "HOME": "/job", "LANG": "C.UTF-8", "CUDA_HOME": "/cuda"}


def test_an_interpreter_is_brought_along_with_its_loader_and_its_libraries():
    parts = interpreters.read_parts(
        "/py/bin/python3.11",
        "/py/lib/python3.11",
        [
            "/py/bin/python3.11",
            "/py/lib/libpython3.11.so.1.0",
            "/lib/x/ld-linux-x86-64.so.2",
            "/lib/x/libc.so.6",
            "/py/lib/python3.11/a.so",
        ],
    )
    assert parts.loader == "/lib/x/ld-linux-x86-64.so.2"
    assert parts.folders == ("/py/lib", "/lib/x")
    places = dict(interpreters.brought(parts))
    start = interpreters.started(parts)
    assert start[0] == f"{places['/lib/x']}/ld-linux-x86-64.so.2"
    assert start[2] == f"{places['/py/lib']}:{places['/lib/x']}"
    assert start[3] == places["/py/bin/python3.11"]
    still = interpreters.read_parts("/py/bin/python3.11", "/py/lib/python3.11", ["/py/bin/python3.11"])
    assert interpreters.started(still)[0] == places["/py/bin/python3.11"]


@pytest.fixture
def told(tmp_path):
    def tell(user=1_950_000_000, groups=True, most=_MOST):
        image = Image(
            "registry.example/team/train:1", "/usr/bin/podman", False, "/py/bin/python3", "/py/lib/python3.11", "", ("/lib",)
        )
        house = House("/usr/bin/bwrap", "/py/bin/python3", (), (), ("/home/falaj",), user, groups, False)
        (tmp_path / "work").mkdir(exist_ok=True)
        inside = Inside(
            tmp_path / "etc",
            make_home(tmp_path / "work", 0),
            ((str(tmp_path / "s.tar"), "/falaj/source.tar"),),
            (),
            256 * MIB,
            False,
        )
        work = Work(
            name="a1",
            command=("train", "--secret-looking"),
            own=({},),
            variables={"TOKEN": "a-word-nobody-may-read"},
            source="",
            directory="/job",
            platform_url="",
            hosts=(),
            certificates="",
            cpu_milli=1500,
            memory_mib=256,
            seconds=60,
            disk_mib=10,
            processes=100,
            cores=(),
            places=(str(tmp_path),),
        )
        return containers.command(image, images.Kind("0a" * 32, {}), house, inside, work, most, tmp_path / "pid")

    return tell


def test_podman_is_told_to_wall_the_job_in(told):
    words = told()
    for word in (
        *("--rm", "--pull=never", "--read-only", "--read-only-tmpfs=false", "--network=none", "--cap-drop=all"),
        *("--security-opt=no-new-privileges", "--image-volume=ignore", "--unsetenv-all", "--http-proxy=false"),
        *("--ipc=private", "--pid=private", "--uts=private", "--log-driver=passthrough", "--name=falaj-a1"),
    ):
        assert word in words, word
    assert not [word for word in words if word.startswith(("--privileged", "--cap-add", "--env", "--publish", "--mount"))]
    assert not [word for word in words if word.startswith("--security-opt=") and ("unconfined" in word or "unmask" in word)]


def test_podman_is_told_to_hold_memory_cores_and_processes(told):
    words = told()
    assert {f"--memory={256 * MIB}b", f"--memory-swap={256 * MIB}b", "--cpus=1.500", "--pids-limit=100"} <= set(words)
    assert not [word for word in told(groups=False) if word.startswith(("--memory", "--cpus", "--pids"))]
    assert "--pids-limit=-1" in told(most=Most(0, 0, 0))


def test_what_runs_is_the_image_s_id_and_nothing_of_the_job_s_is_on_the_command_line(told):
    words = told()
    assert words[-2] == "0a" * 32
    assert not [word for word in words if "a-word-nobody-may-read" in word or "secret-looking" in word or "train:1" in word]


def test_root_inside_is_nobody_outside_and_the_job_is_not_even_that(told):
    words = told(user=1_950_000_000)
    first, outside, count = next(word for word in words if word.startswith("--uidmap=")).removeprefix("--uidmap=").split(":")
    user = next(word for word in words if word.startswith("--user=")).removeprefix("--user=").partition(":")[0]
    assert first == "0"
    assert int(outside) > 1_000_000_000
    assert int(outside) + int(user) == 1_950_000_000
    assert int(user) >= 65_536
    assert int(user) < int(count)
    assert "--userns=keep-id" in told(user=0)


def test_every_user_that_a_sandbox_may_have_is_known_inside_a_container(told):
    for user in (1_899_999_999, 1_900_000_000, 1_999_999_999):
        words = told(user=user)
        _, _, count = next(word for word in words if word.startswith("--gidmap=")).split(":")
        number = next(word for word in words if word.startswith("--user=")).partition(":")[2]
        assert 65_536 <= int(number) < int(count)


def test_only_the_job_s_own_folder_can_be_written(told, tmp_path):
    volumes = [word.removeprefix("--volume=").split(":") for word in told() if word.startswith("--volume=")]
    writable = {(outside, inside) for outside, inside, rights in volumes if rights.startswith("rw")}
    work = tmp_path / "work"
    assert writable == {(str(work), "/job"), (str(work / "tmp"), "/tmp"), (str(work / "tmp"), "/var/tmp")}
    assert all("nosuid" in rights and "nodev" in rights for _, _, rights in volumes)


def test_cards_are_given_by_the_host_s_own_specification(tmp_path):
    assert containers.devices((), (str(tmp_path),)) == ()
    (tmp_path / "nvidia.yaml").write_text("kind: nvidia.com/gpu\ndevices:\n- name: GPU-11-22\n")
    assert containers.devices(("GPU-11-22",), (str(tmp_path),)) == ("nvidia.com/gpu=GPU-11-22",)
    with pytest.raises(containers.NoDevices, match="nvidia-ctk cdi generate"):
        containers.devices(("GPU-33",), (str(tmp_path), "/no/such/place"))


def test_an_order_with_an_image_survives_being_written_down(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", images=("localhost",), pulls_images=True))
    kept = []
    monkeypatch.setattr("falaj.jobs.engines.local.written", lambda order: kept.append(order) or written(order))
    monkeypatch.setattr(engine, "_spawn", lambda *_: None)
    launched(engine, "true", environment=Environment(image="localhost/any:1"))
    (order,) = kept
    assert order.image.name == "localhost/any:1"
    assert order.image.pulls
    again = understood(json.loads(json.dumps(written(order))))
    assert again.image._replace(folders=tuple(again.image.folders)) == order.image


def test_a_home_that_every_container_would_see_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/usr/bin/{name}")
    home = tmp_path / "libraries" / "home"
    home.mkdir(parents=True)
    parts = interpreters.Parts("/py/bin/python3", "/py/lib", "", (str(tmp_path / "libraries"),))
    monkeypatch.setattr(interpreters, "own_parts", lambda: parts)
    engine = LocalEngine(tmp_path / "jobs", Site(zone="here", images=("localhost",), hidden=(home,)))
    end = ended(engine, launched(engine, "true", environment=Environment(image="localhost/any:1")))
    assert end.cause == "environment"
    assert str(Path(home)) in end.words
