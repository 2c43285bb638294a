"""Jobs, queues, hosts and secrets from the command line: submitted, followed, explained, shared out."""

import json
import re
from pathlib import Path

import pytest

from falaj.base.clock import Moment
from falaj.cli.commands.queue import _queues
from falaj.cli.layout import Layout, brief
from falaj.jobs.operations.queues import Queue, Queues, QueueSpec, ShareOf
from tests.cli.conftest import Running

IN = ("--project", "default")
SMALL = ("--cpus", "0.1", "--memory", "64MiB", "--retries", "0")
QUIET = (*SMALL, "--no-source", *IN)
QUEUES = """
[[cohort]]
name = "company"

[[queue]]
name = "default"
cohort = "company"
quota = { cpu = 1 }

[[queue]]
name = "closed"
cohort = "company"
quota = { cpu = 0.5 }
lend = { cpu = 0.25 }
open = false
"""


def submitted(platform: Running, *arguments: str) -> str:
    """The id of a job that nobody follows."""
    return str(json.loads(platform("job", "submit", "--json", *QUIET, *arguments))["job"]["id"])


@pytest.fixture(scope="module")
def queues(platform: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("queues") / "queues.toml"
    file.write_text(QUEUES)
    platform("queue", "apply", str(file))
    return str(file)


@pytest.fixture(scope="module")
def waiting(platform: Running, queues: str) -> str:
    """The id of a job that waits until somebody opens its queue."""
    assert queues
    return submitted(platform, "--name", "patient", "--queue", "closed", "--", "true")


def test_submit_says_where_and_when_shows_what_is_written_and_ends_as_the_job_does(platform: Running):
    written, said = platform.both("job", "submit", *QUIET, "--", "sh", "-c", "echo hello; echo again >&2")
    first, *rest = written.splitlines()
    assert re.match(r"sh \([0-9a-f]{8}\) in queue default: starts now on \S+\.$", first)
    assert rest == ["hello", "again"]
    assert re.search(r"^sh is done after \d+ s \(CPU \d+ s, memory at most \d+ MiB\): Done\.$", said, re.MULTILINE)
    written, said = platform.both("job", "submit", *QUIET, "--", "sh", "-c", "echo oh; exit 3", status=1)
    assert written.splitlines()[1:] == ["oh"]
    assert "sh is failed" in said
    assert "Try 1 ended with code 3" in said


def test_the_folder_is_sent_and_the_job_runs_in_it(platform: Running, tmp_path: Path):
    (tmp_path / "part").mkdir()
    (tmp_path / "part" / "words.txt").write_text("from the folder\n")
    (tmp_path / "show.py").write_text("print(open('part/words.txt').read(), end='')")
    written, said = platform.both("job", "submit", *SMALL, "--source", str(tmp_path), *IN, "--", "python", "show.py")
    assert written.splitlines()[1:] == ["from the folder"]
    assert "Sent 2 files" in said


def test_a_dry_run_says_the_plan_and_submits_nothing(platform: Running):
    before = platform.json("job", "list", *IN)
    told = platform("job", "submit", "--dry-run", *QUIET, "--", "true")
    assert told.startswith("The job in queue default: starts now on ")
    assert json.loads(platform("job", "submit", "--dry-run", "--json", *QUIET, "--", "true"))["queue"] == "default"
    assert platform.json("job", "list", *IN) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cpus", "5000"), "One task asks for 5000 CPUs, and the largest host of its zones has"),
        (("--cpus", "-1"), "spec.resources.cpus"),
        (("--memory", "lots"), "'lots' is no amount of memory; write it like 512MiB or 16GiB"),
        (("--timeout", "soon"), "'soon' is no length of time"),
        (("--priority", "vip"), "There is no priority class 'vip'; there are low, normal, high, urgent"),
        (("--queue", "nowhere"), "There is no queue 'nowhere' for this project"),
        (("--deadline", "2020-01-01T00:00:00Z"), "has passed already"),
        (("--secret", "NOWHERE"), "There is no secret 'NOWHERE' here"),
        (("--permission", "job.fly"), "There is no permission 'job.fly'"),
        (("--source", "/nowhere"), "/nowhere is no folder"),
        (
            ("--host", "foo"),
            "'foo' does not do for spec.hosts.0: it must be the name of a host and a port, such as pypi.org:443",
        ),
        (("--reads", "foo=1"), "'foo' does not do for spec.inputs.0.kind: it must be run, model, version or dataset."),
        (("--label", "a+b"), "'a+b' does not do for spec.label: it takes letters, digits, '.', '_' and '-', at most 50"),
        (("--env", "1x=2"), "'1x' does not do for spec.variables.0.name: it takes letters, digits and '_'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(platform: Running, arguments: tuple[str, ...], words: str):
    source = () if "--source" in arguments else ("--no-source",)
    assert words in platform.fails("job", "submit", "--no-follow", *source, *arguments, *IN, "--", "true", status=2)


def test_jobs_are_listed_and_shown(platform: Running, waiting: str):
    listed = platform("job", "list", "--state", "waiting", *IN)
    assert waiting[-8:] in listed
    assert "patient" in listed
    shown = platform("job", "show", waiting[-8:], *IN)
    assert re.search(rf"^id +{waiting}$", shown, re.MULTILINE)
    assert re.search(r"^queue +closed, normal$", shown, re.MULTILINE)
    assert re.search(r"^asked for +1 x 0\.1 CPUs, 64 MiB, 0 GPUs$", shown, re.MULTILINE)
    assert re.search(r"^retries +0$", shown, re.MULTILINE)
    assert not re.search(r"^(timeout|deadline|lock|preemptible) ", shown, re.MULTILINE)  # as everybody has it
    assert "owner submitted it to queue closed." in shown
    assert platform.json("job", "show", waiting, *IN)["state"] == "waiting"
    assert "There is no job '000000' here." in platform.fails("job", "show", "000000", *IN)


def test_what_was_asked_for_otherwise_is_shown_without_what_variables_hold(platform: Running, queues: str):
    assert queues
    asked = ("--takes", "2h", "--timeout", "3h", "--label", "web", "--not-preemptible", "--host", "pypi.org:443")
    asked += ("--writes", "model.onnx", "--writes", "figures/")
    job = submitted(platform, "--queue", "closed", "--env", "COLOUR=vermilion", *asked, "--", "true")
    shown = platform("job", "show", job, *IN)
    for name, text in (
        ("takes", "2 h 0 min"),
        ("timeout", "3 h 0 min"),
        ("variables", "COLOUR"),
        ("hosts", "pypi.org:443"),
        ("label", "web"),
        ("writes", "model.onnx, figures"),
        ("preemptible", "no"),
    ):
        assert re.search(rf"^{name} +{re.escape(text)}$", shown, re.MULTILINE), shown
    assert "vermilion" not in shown
    platform("job", "cancel", job, "--yes", *IN)


def test_a_job_that_is_over_is_shown_with_where_it_ran(platform: Running):
    written = platform("job", "submit", *QUIET, "--", "true")
    job, node = re.match(r"true \((\w+)\)", written)[1], platform.json("node", "list")["items"][0]["name"]
    assert re.search(rf"^ran on +{re.escape(node)}$", platform("job", "show", job[:6], *IN), re.MULTILINE)
    row = next(line for line in platform("job", "list", *IN).splitlines() if line.startswith(job))
    assert re.fullmatch(rf"{job}  true +done +default +\d\d-\d\d \d\d:\d\d +Done\.", row)
    assert brief(Moment.parse("2020-01-02T03:04:05Z")) == "2020-01-02"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("job", "show", "1dbc", *IN), "'1dbc' does not do for job: it must be a job's id, or six or more of the last digits"),
        (("job", "list", "--state", "foo", *IN), "'foo' does not do for state: it must be waiting, starting, running"),
        (("capacity", "report", "--of", "foo"), "'foo' does not do for of: it must be queue, project or node with a name"),
    ],
)
def test_what_is_mistyped_is_told_in_words(platform: Running, arguments: tuple[str, ...], words: str):
    assert words in platform.fails(*arguments, status=2)


def test_why_says_the_rule_and_the_shares_and_eta_says_when(platform: Running, waiting: str):
    told = platform("job", "why", waiting, *IN)
    assert told.startswith("Queue closed is closed: submit it to another, or wait until it is open again.")
    assert re.search(r"^cpu +0\.1 +0\.5 ", told, re.MULTILINE)
    assert platform.json("job", "why", waiting, *IN)["rule"] == "queue-closed"
    assert platform("job", "eta", waiting, *IN).strip()
    assert set(platform.json("job", "eta", waiting, *IN)) == {"earliest", "expected", "latest", "reason"}


def test_a_job_is_cancelled_after_a_question_and_submitted_again(platform: Running, queues: str):
    assert queues
    job = submitted(platform, "--queue", "closed", "--", "true")
    assert "Say --yes" in platform.fails("job", "cancel", job, *IN, status=2)
    assert "true is" in platform("job", "cancel", job, "--yes", "--reason", "a mistake", *IN)
    assert "true is cancelled" in platform.both("job", "logs", job, "--follow", *IN, status=1)[1]
    again = platform.json("job", "retry", job, *IN)["job"]
    assert again["id"] != job
    assert again["spec"]["command"] == ["true"]
    platform("job", "cancel", again["id"], "--yes", *IN)


def test_logs_show_what_a_terminal_would_obey_as_marks(platform: Running):
    script = r"printf 'red \033[31m \033]0;title\007 bell\n\tcolumns\n'"
    written = platform("job", "submit", *QUIET, "--", "sh", "-c", script)
    assert "\x1b" not in written
    assert "\x07" not in written
    job = platform.json("job", "list", *IN)["items"][0]
    told = platform("job", "logs", job["id"], *IN)
    assert told == "red �[31m �]0;title� bell\n\tcolumns\n"
    assert platform("job", "logs", job["id"][-8:], "--follow", *IN) == told
    assert platform.json("job", "logs", job["id"], *IN)["text"] == "red \x1b[31m \x1b]0;title\x07 bell\n\tcolumns\n"
    assert "has had no try number 7" in platform.fails("job", "logs", job["id"], "--attempt", "7", *IN)


def test_a_command_that_a_terminal_would_obey_is_shown_as_marks(platform: Running, queues: str):
    assert queues
    job = submitted(platform, "--queue", "closed", "--", "sh", "-c", "\x1b[31m")
    assert "\x1b" not in platform("job", "show", job, *IN)
    platform("job", "cancel", job, "--yes", *IN)


# Queues


def test_queues_are_applied_listed_and_shown(platform: Running, queues: str):
    assert platform("queue", "apply", queues).strip() == "Nothing changed."
    assert platform("queue", "apply", queues, "--dry-run").strip() == "Nothing changes."
    listed = platform("queue", "list", *IN)
    assert re.search(r"^closed \(closed\) +company +cpu +0\.5 ", listed, re.MULTILINE)
    assert re.search(r"^open +no$", platform("queue", "show", "closed", *IN), re.MULTILINE)
    assert {one["spec"]["name"] for one in platform.json("queue", "list", "--all")["queues"]} == {"default", "closed"}
    assert "There is no queue 'nowhere' for this project" in platform.fails("queue", "show", "nowhere", *IN)


def test_a_queue_of_several_resources_is_named_once(capsys: pytest.CaptureFixture[str]):
    shares = tuple(ShareOf(resource=name, nominal=1000, used=0, borrowed=0, lent=0, free=1000) for name in ("cpu", "gpu"))
    spec = QueueSpec(name="research", cohort="company")
    queue = Queue(spec=spec, shares=shares, waiting=2, running=1, fair_share=0.0, oldest=None, spent=0)
    _queues(Layout(), Queues(serial=1, queues=(queue,), cohorts=(), priorities=()))
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["research", "company", "cpu", "1", "0", "0", "0", "1", "1", "2"]
    assert second.split() == ["gpu", "1", "0", "0", "0", "1"]
    assert second.index("gpu") == first.index("cpu")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[queue", "This is no TOML"),
        ('[[queue]]\nname = "a"\nspeed = 3', "queue 'a' has 'speed', which means nothing here"),
        ('[[queue]]\nname = "a"\ncohort = "moon"', "Queue 'a' belongs to the cohort 'moon', which is not there"),
        ('[[cohort]]\nname = "x"\nparent = "x"\n[[queue]]\nname = "a"', "each other's parents: x > x"),
        ('[[queue]]\nname = "default"\nweight = "heavy"', "weight"),
        ("", "No queues are in this file; write at least one"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(platform: Running, text: str, words: str):
    before = platform.json("queue", "list", "--all")["serial"]
    assert words in platform.fails("queue", "apply", "-", input=text, status=2)
    assert platform.json("queue", "list", "--all")["serial"] == before


def test_a_queue_is_not_removed_under_a_job_that_waits_in_it(platform: Running, waiting: str):
    assert waiting
    said = platform.fails("queue", "apply", "-", input='[[queue]]\nname = "default"')
    assert "The queue 'closed' has jobs that are not over; cancel those that wait, and close it" in said


def test_what_would_be_is_simulated(platform: Running, queues: str):
    assert platform("queue", "simulate", queues, "--days", "1").startswith("QUEUE ")
    told = platform.json("queue", "simulate", "--cpus", "0.1", "--memory", "64MiB", "--takes", "1m", "--queue", "default")
    assert set(told) >= {"before", "after", "start", "remarks"}


# Hosts, capacity, secrets


def test_hosts_are_listed_drained_and_resumed(platform: Running):
    node = platform.json("node", "list")["items"][0]["name"]
    assert re.search(rf"^{re.escape(node)} +local +home +ready ", platform("node", "list"), re.MULTILINE)
    assert f"{node} is drain" in platform("node", "drain", node, "--reason", "new fan")
    assert f"{node} is ready." in platform("node", "resume", node)
    assert "There is no host 'gpu-7'; `falaj node list`" in platform.fails("node", "drain", "gpu-7")


def test_capacity_is_reported(platform: Running):
    assert "CPU USED OF ASKED" in platform("capacity", "report", "--days", "1")
    assert set(platform.json("capacity", "report")) >= {"points", "used", "advice"}
    mine = platform("capacity", "report", "--of", "project:default").splitlines()
    head = next(number for number, line in enumerate(mine) if line.startswith("BY "))
    assert all(re.match(r"project +default ", line) for line in mine[head + 1 :])
    assert "There is no queue 'nope'; there are " in platform.fails("capacity", "report", "--of", "queue:nope")


def test_secrets_are_read_from_standard_input_and_never_shown(platform: Running):
    said = platform("secret", "set", "LAKE_PASSWORD", *IN, input="open sesame\n")
    assert said.strip() == "LAKE_PASSWORD is kept; a job sees it with --secret LAKE_PASSWORD."
    listed = platform("secret", "list", *IN)
    assert "LAKE_PASSWORD" in listed
    assert "sesame" not in listed
    written = platform("job", "submit", "--secret", "LAKE_PASSWORD", *QUIET, "--", "sh", "-c", "echo ${#LAKE_PASSWORD}")
    assert written.splitlines()[-1] == "11"
    assert "Nothing was given" in platform.fails("secret", "set", "EMPTY", *IN, status=2)
    assert "Say --yes" in platform.fails("secret", "delete", "LAKE_PASSWORD", *IN, status=2)
    platform("secret", "delete", "LAKE_PASSWORD", "--yes", *IN)
    assert "There is no secret 'LAKE_PASSWORD' here." in platform.fails("secret", "delete", "LAKE_PASSWORD", "--yes", *IN)
