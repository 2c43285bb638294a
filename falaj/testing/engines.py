"""What every engine promises, as tests over real processes. Inherit and provide the fixture `make_engine`.

Commands are plain `sh`, so that they run wherever an engine runs them; an engine that sees a change late overrides `PATIENCE`.
"""

import io
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from falaj.base.clock import SECOND
from falaj.base.errors import Conflict
from falaj.jobs.engines.engine import Engine, Environment, Launch, Limits, MeasuresCards, Seen
from falaj.jobs.scheduler.values import Seat, Shape

MakeEngine = Callable[[], Engine]


def packed(files: dict[str, str]) -> Callable[[], Iterator[bytes]]:
    """A source of a few text files."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return lambda: iter([whole.getvalue()[:700], whole.getvalue()[700:]])


class EngineConformance:
    PATIENCE = 60.0  # seconds, for anything to happen

    @pytest.fixture
    def make_engine(self) -> MakeEngine:
        raise NotImplementedError("provide what makes engines that share their state, and closes them")

    @pytest.fixture
    def engine(self, make_engine: MakeEngine) -> Engine:
        return make_engine()

    @pytest.fixture(autouse=True)
    def nothing_is_left_running(self, make_engine: MakeEngine) -> Iterator[None]:
        yield
        engine = make_engine()
        for seen in engine.look():
            engine.stop(seen.attempt, 0)
            self.ended(engine, seen.attempt)

    def launch(self, engine: Engine, script: str, **changes: Any) -> Launch:
        """A shell script as an attempt of its own."""
        count = changes.pop("count", 1)
        node = engine.nodes()[0].name
        given: dict[str, Any] = {
            "attempt": os.urandom(8).hex(),
            "job": os.urandom(8).hex(),
            "project": "conformance",
            "name": "a job",
            "command": ("sh", "-c", script),
            "shape": Shape(cpu_milli=500, memory_mib=256),
            "seats": tuple(Seat(node=node) for _ in range(count)),
            "environment": Environment(),
            "limits": Limits(seconds=120),
            "variables": {},
        }
        return Launch(**given | changes)

    def started(self, engine: Engine, script: str, **changes: Any) -> str:
        launch = self.launch(engine, script, **changes)
        engine.start(launch)
        return launch.attempt

    def seen(self, engine: Engine, attempt: str) -> Seen | None:
        return next((seen for seen in engine.look() if seen.attempt == attempt), None)

    def wait_for(self, what: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + self.PATIENCE
        while not (found := what()):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.02)
        return found

    def ended(self, engine: Engine, attempt: str) -> Seen:
        def over() -> Seen | None:
            seen = self.seen(engine, attempt)
            return seen if seen is not None and seen.state == "ended" else None

        return self.wait_for(over)  # type: ignore[no-any-return]

    def logged(self, engine: Engine, attempt: str) -> str:
        return engine.log(attempt, 0, 1 << 24)[0].decode()

    def wait_for_log(self, engine: Engine, attempt: str, words: str) -> None:
        def said() -> bool:
            seen = self.seen(engine, attempt)
            assert seen is None or seen.state != "ended", (seen, self.logged(engine, attempt))
            return words in self.logged(engine, attempt)

        self.wait_for(said)

    # What it has

    def test_it_has_hosts_with_something_to_give(self, engine: Engine) -> None:
        assert engine.nodes()
        assert all(node.cpu_milli > 0 and node.memory_mib > 0 and node.name and node.zone for node in engine.nodes())

    # How attempts begin

    def test_where_it_tells_what_cards_do_it_tells_it_of_every_card(self, engine: Engine) -> None:
        there = {node.name: len(node.cards) for node in engine.nodes()}
        measuring: object = engine
        told = measuring.cards() if isinstance(measuring, MeasuresCards) else {}
        assert {name: len(uses) for name, uses in told.items()}.items() <= there.items()

    def test_an_attempt_is_seen_as_soon_as_it_was_started(self, engine: Engine) -> None:
        attempt = self.started(engine, "sleep 0.1")
        seen = self.seen(engine, attempt)
        assert seen is not None
        self.ended(engine, attempt)

    def test_a_command_runs_and_what_it_wrote_is_kept(self, engine: Engine) -> None:
        attempt = self.started(engine, "echo out; echo err >&2")
        seen = self.ended(engine, attempt)
        assert (seen.cause, seen.code) == ("done", 0), seen
        assert seen.started is not None
        assert seen.ended is not None
        assert seen.started <= seen.ended
        assert seen.nodes == (engine.nodes()[0].name,)
        assert {"out", "err"} <= set(self.logged(engine, attempt).split())

    def test_starting_twice_starts_once(self, engine: Engine, make_engine: MakeEngine) -> None:
        launch = self.launch(engine, "echo begun; sleep 0.3")
        for one in (engine, engine, make_engine()):
            one.start(launch)
        self.ended(engine, launch.attempt)
        engine.start(launch)
        assert self.ended(engine, launch.attempt).cause == "done"
        assert self.logged(engine, launch.attempt).count("begun") == 1

    def test_it_sees_its_variables_and_is_where_its_source_is(self, engine: Engine) -> None:
        script = 'echo "$WORD"; cat folder/hello.txt; echo kept > "$FALAJ_OUTPUT/result" && cat "$FALAJ_OUTPUT/result"'
        source = packed({"folder/hello.txt": "from the source\n"})
        attempt = self.started(engine, script, variables={"WORD": 'it\'s "quoted" $HOME\n'}, source=source)
        assert self.ended(engine, attempt).cause == "done", self.logged(engine, attempt)
        assert self.logged(engine, attempt) == 'it\'s "quoted" $HOME\n\nfrom the source\nkept\n'

    def test_a_source_that_is_none_is_the_environments_fault(self, engine: Engine) -> None:
        attempt = self.started(engine, "echo ran", source=lambda: iter([b"not a tar"]))
        seen = self.ended(engine, attempt)
        assert seen.cause == "environment"
        assert "source" in seen.words
        assert "ran" not in self.logged(engine, attempt)

    def test_a_lock_that_names_no_versions_makes_no_environment(self, engine: Engine) -> None:
        attempt = self.started(engine, "echo ran", environment=Environment(lock="numpy>=2\n"))
        seen = self.ended(engine, attempt)
        assert seen.cause == "environment"
        assert "numpy>=2" in seen.words

    # How attempts end

    def test_a_command_that_fails_says_with_what(self, engine: Engine) -> None:
        attempt = self.started(engine, "exit 7")
        seen = self.ended(engine, attempt)
        assert (seen.cause, seen.code) == ("failed", 7)

    def test_a_signal_of_its_own_is_a_failure(self, engine: Engine) -> None:
        attempt = self.started(engine, "kill -SEGV $$")
        seen = self.ended(engine, attempt)
        assert seen.cause == "failed"
        assert seen.code == 128 + 11

    def test_a_command_that_does_not_exist_is_named(self, engine: Engine) -> None:
        attempt = self.started(engine, "", command=("no-such-program", "--now"))
        seen = self.ended(engine, attempt)
        assert seen.cause == "failed"
        assert "no-such-program" in seen.words

    def test_what_takes_too_long_is_ended(self, engine: Engine) -> None:
        attempt = self.started(engine, "sleep 60", limits=Limits(seconds=1))
        assert self.ended(engine, attempt).cause == "timeout"

    def test_what_takes_too_much_memory_is_ended(self, engine: Engine) -> None:
        # `tail` keeps a line that does not end, and a child of the shell is as much the attempt's as the shell is.
        attempt = self.started(engine, "tail -n 1 /dev/zero; sleep 60", shape=Shape(cpu_milli=1000, memory_mib=128))
        assert self.ended(engine, attempt).cause == "memory"

    @pytest.mark.parametrize(
        "script",
        [
            "i=0; while true; do i=$((i+1)); head -c 4194304 /dev/zero > $TMPDIR/$i || exit 1; sleep 0.02; done",
            "head -c 1073741824 /dev/zero > large; echo over; exit 3",
        ],
        ids=["many files", "a large one"],
    )
    def test_what_fills_its_disk_is_ended(self, engine: Engine, script: str) -> None:
        shape = Shape(cpu_milli=500, memory_mib=1024)  # disks of tests may be memory
        attempt = self.started(engine, script, shape=shape, limits=Limits(seconds=120, disk_mib=32))
        assert self.ended(engine, attempt).cause == "disk"

    def test_what_it_left_running_ends_with_it(self, engine: Engine) -> None:
        script = "(setsid sh -c 'while true; do echo alive; sleep 0.05; done' &) ; sleep 0.2; exit 0"
        attempt = self.started(engine, script)
        assert self.ended(engine, attempt).cause == "done"
        size = len(self.logged(engine, attempt))
        time.sleep(0.3)
        assert len(self.logged(engine, attempt)) == size

    # Stopping

    def test_one_that_is_stopped_may_tidy_up_first(self, engine: Engine) -> None:
        attempt = self.started(engine, "trap 'echo tidy; exit 0' TERM; echo ready; while true; do sleep 0.05; done")
        self.wait_for_log(engine, attempt, "ready")
        engine.stop(attempt, 30 * SECOND)
        assert self.ended(engine, attempt).cause == "stopped"
        assert "tidy" in self.logged(engine, attempt)

    def test_one_that_does_not_listen_is_killed_after_its_grace(self, engine: Engine) -> None:
        attempt = self.started(engine, "trap '' TERM; echo ready; while true; do sleep 0.05; done")
        self.wait_for_log(engine, attempt, "ready")
        engine.stop(attempt, 3600 * SECOND)
        assert self.seen(engine, attempt).state == "running"  # type: ignore[union-attr]
        engine.stop(attempt, SECOND // 4)  # whoever asks again may be less patient
        assert self.ended(engine, attempt).cause == "stopped"

    def test_stopping_can_be_repeated_at_any_time(self, engine: Engine) -> None:
        attempt = self.started(engine, "exit 3")
        self.ended(engine, attempt)
        for _ in range(2):
            engine.stop(attempt, 0)
        assert self.ended(engine, attempt).cause == "failed"

    def test_one_that_was_stopped_before_it_was_started_is_not(self, engine: Engine) -> None:
        launch = self.launch(engine, "echo ran")
        for _ in range(2):
            engine.stop(launch.attempt, SECOND)
        engine.start(launch)
        seen = self.ended(engine, launch.attempt)
        assert (seen.cause, seen.started) == ("stopped", None)
        assert "ran" not in self.logged(engine, launch.attempt)

    # Tasks

    def test_tasks_know_each_other(self, engine: Engine) -> None:
        attempt = self.started(engine, 'echo "rank $RANK of $WORLD_SIZE, first at $MASTER_ADDR:$MASTER_PORT"', count=3)
        assert self.ended(engine, attempt).cause == "done"
        lines = sorted(self.logged(engine, attempt).splitlines())
        assert [line.partition(",")[0] for line in lines] == [f"rank {rank} of 3" for rank in range(3)]
        assert len({line.partition("first at")[2] for line in lines}) == 1

    def test_tasks_end_together_when_one_fails(self, engine: Engine) -> None:
        attempt = self.started(engine, '[ "$RANK" = 1 ] && exit 5; sleep 60', count=2)
        seen = self.ended(engine, attempt)
        assert (seen.cause, seen.code) == ("failed", 5)

    # What is known of them

    def test_an_engine_that_was_just_born_knows_them_all(self, engine: Engine, make_engine: MakeEngine) -> None:
        over = self.started(engine, "echo over")
        attempt = self.started(engine, "echo first; sleep 60")
        self.ended(engine, over)
        self.wait_for_log(engine, attempt, "first")
        engine.close()
        other = make_engine()
        assert {seen.attempt: seen.state for seen in other.look()} == {over: "ended", attempt: "running"}
        assert self.logged(other, over) == "over\n"
        other.stop(attempt, 0)
        assert self.ended(other, attempt).cause == "stopped"

    def test_a_log_is_read_from_where_one_was(self, engine: Engine) -> None:
        attempt = self.started(engine, "i=0; while [ $i -lt 400 ]; do i=$((i+1)); echo line $i; done")
        self.ended(engine, attempt)
        whole, end = engine.log(attempt, 0, 1 << 20)
        assert whole == b"".join(b"line %d\n" % number for number in range(1, 401))
        parts, offset = [], 0
        while True:
            part, offset = engine.log(attempt, offset, 100)
            if not part:
                break
            assert len(part) <= 100
            parts.append(part)
        assert b"".join(parts) == whole
        assert offset == end
        assert engine.log(attempt, end, 100) == (b"", end)

    def test_a_flooded_log_keeps_its_ends_and_says_what_is_missing(self, engine: Engine) -> None:
        flood = "echo the beginning; head -c 6291456 /dev/zero | tr '\\0' x; echo; echo the end"
        attempt = self.started(engine, flood, limits=Limits(seconds=120, log_mib=1))
        assert self.ended(engine, attempt).cause == "done"
        text = self.logged(engine, attempt)
        assert text.startswith("the beginning\n")
        assert text.endswith("the end\n")
        assert "dropped" in text
        assert len(text) < 1 << 21

    def test_the_log_of_one_never_heard_of_is_empty(self, engine: Engine) -> None:
        assert engine.log("a" * 16, 0, 100) == (b"", 0)

    def test_what_it_used_is_known(self, engine: Engine) -> None:
        # 64 MiB of memory held for a moment, and some of a core.
        hold = "head -c 67108864 /dev/zero | tail -n 1 | { sleep 0.5; cat > /dev/null; }"
        attempt = self.started(engine, f"{hold}; while [ $((i+=1)) -lt 100000 ]; do :; done")
        used = self.ended(engine, attempt).used
        assert used.cpu_seconds > 0.02
        assert used.memory_mib_peak >= 30
        assert used.memory_mib_seconds > 0
        assert used.energy_joules > 0

    # Forgetting

    def test_one_that_is_forgotten_is_gone(self, engine: Engine, make_engine: MakeEngine) -> None:
        attempt = self.started(engine, "echo words")
        self.ended(engine, attempt)
        for one in (engine, make_engine(), engine):
            one.forget(attempt)
        assert self.seen(engine, attempt) is None
        assert engine.log(attempt, 0, 100) == (b"", 0)

    def test_one_that_goes_on_is_not_forgotten(self, engine: Engine) -> None:
        attempt = self.started(engine, "echo ready; sleep 60")
        self.wait_for_log(engine, attempt, "ready")
        with pytest.raises(Conflict):
            engine.forget(attempt)
        assert self.seen(engine, attempt).state == "running"  # type: ignore[union-attr]
        engine.stop(attempt, 0)
        self.ended(engine, attempt)
