"""A whole profile without torch: windows become figures and verdicts, and what the next start does otherwise."""

import gc
import threading
import weakref

from falaj.training.hardware import Hardware
from falaj.training.profiling.changes import Changes, Keeper
from falaj.training.profiling.clock import COMPUTE, DATA, StepClock
from falaj.training.profiling.devices import Devices, Processes, Sample
from falaj.training.profiling.profile import Profile
from falaj.training.profiling.verdicts import Setting
from falaj.training.recipes import Facts, choose
from falaj.training.telling import NoRun

KEY = bytes(32)
RECIPE = choose(Hardware(), Facts(parameters=10))


class _Told(NoRun):
    def __init__(self):
        self.points, self.said, self.closed = [], {}, 0

    def figures(self, figures, step=0):
        self.points.append((step, figures))

    def words(self, words):
        self.said.update(words)

    def close(self):
        self.closed += 1


class _Machine(Devices):
    def __init__(self, **sample):
        self._sample = Sample(**sample)

    def sample(self):
        return self._sample


class _Training:
    """Steps on a time of its own."""

    def __init__(self, **given):
        self.now, self.run = 0.0, _Told()
        clock = StepClock(now=lambda: self.now, first=1.0, warm_up=1)
        given = {"setting": Setting(kind="cuda", cpus=16, workers=2)} | given
        self.profile = Profile(clock, run=self.run, **given)

    def steps(self, count, *, data, compute):
        for _ in range(count):
            self.profile.clock.turn(DATA)
            self.now += data
            self.profile.clock.turn(COMPUTE)
            self.now += compute
            self.profile.clock.saw(10)
            self.profile.stepped()


def test_figures_and_the_verdict_are_told_and_only_what_is_new():
    training = _Training(devices=_Machine(gpu_busy=0.4, gpu_watts=300.0, cpus_busy=2.0))
    training.steps(40, data=0.06, compute=0.04)
    training.profile.look()
    (step, figures), *_ = training.run.points
    assert step == 11
    assert round(figures["falaj.training/data_share"], 6) == 0.6
    assert round(figures["falaj.training/rows_per_second"], 6) == 100
    assert figures["falaj.training/gpu_watts"] == 300.0
    assert "falaj.training/share_of_peak" not in figures
    assert training.run.said["falaj.training.verdict"].startswith("input-bound: 60 %")
    told = len(training.run.points)
    training.run.said = {}
    training.profile.look()
    assert (len(training.run.points), training.run.said) == (told, {})


def test_the_share_of_the_peak_follows_from_the_work_of_a_row():
    training = _Training()
    training.profile.flops_of_a_row, training.profile.peak = 4e12, 1e15
    training.steps(12, data=0.0, compute=0.1)
    training.profile.look()
    assert round(training.profile.measured().of_peak, 6) == 0.4


def test_a_change_is_kept_for_the_next_start_which_takes_it_where_that_is_allowed(tmp_path):
    first = _Training(keeper=Keeper(tmp_path, KEY))
    first.steps(40, data=0.06, compute=0.04)
    first.profile.close()
    assert first.profile.taken == {}
    assert "with --apply-profile, 6 loader workers" in first.run.said["falaj.training.next"]
    assert _Training(keeper=Keeper(tmp_path, KEY)).profile.taken == {}

    second = _Training(keeper=Keeper(tmp_path, KEY), apply=True, setting=Setting(kind="cuda", cpus=16, workers=6))
    assert second.profile.taken == {"loader_workers": 6}
    second.steps(40, data=0.0, compute=0.04)
    second.profile.close()
    assert Keeper(tmp_path, KEY).read().wanted == {"loader_workers": 6}  # what helped stays, though nothing asks for it now


def test_a_change_that_made_it_slower_is_taken_back_and_not_tried_again(tmp_path):
    Keeper(tmp_path, KEY).write(Changes(wanted={"loader_workers": 6}, rate=100.0))
    second = _Training(keeper=Keeper(tmp_path, KEY), apply=True, setting=Setting(kind="cuda", cpus=16, workers=6))
    second.steps(80, data=0.06, compute=0.09)
    second.profile.close()
    assert second.run.said["falaj.training.verdict"].startswith(
        "changed for the worse: 67 rows/s with 6 loader workers, 100 without; the next start takes it back"
    )
    assert Keeper(tmp_path, KEY).read() == Changes(refused=("loader_workers",))
    third = _Training(keeper=Keeper(tmp_path, KEY), apply=True)
    assert third.profile.taken == {}
    third.steps(40, data=0.06, compute=0.04)
    third.profile.close()
    assert Keeper(tmp_path, KEY).read().wanted == {}


def test_what_only_a_new_submission_can_change_is_said_as_options():
    training = _Training(setting=Setting(kind="cuda", cpus=3, workers=2))
    training.steps(40, data=0.06, compute=0.04)
    training.profile.close()
    assert training.run.said["falaj.training.next"] == "falaj train … --cpus 7"


def test_the_recipe_is_told_with_its_reasons_and_what_changes_of_it():
    training = _Training()
    training.profile.begin(RECIPE)
    assert training.run.said["falaj.training.recipe.precision"] == f"float32\n{RECIPE.precision.why}"
    training.run.said = {}
    training.profile.tell_recipe(RECIPE.but("micro_batch", 8, "Memory."))
    assert training.run.said == {"falaj.training.recipe.micro_batch": "8\nMemory."}


def test_waiting_for_an_evaluation_s_loader_is_not_the_steps():
    training = _Training()
    clock = training.profile.clock

    def loaded(count, seconds):
        for _ in range(count):
            training.now += seconds
            yield 0

    for _ in training.profile.batches(loaded(20, 0.01), iter):
        clock.turn(COMPUTE)
        training.now += 0.04
        clock.saw(10)
        training.profile.stepped()
    for _ in training.profile.batches(loaded(20, 0.01), iter):
        pass
    training.steps(1, data=0.0, compute=0.0)
    training.profile.close()
    shares = training.profile.measured().shares
    assert 0.15 < shares["data"] < 0.22
    assert shares["other"] > 0.15


def test_a_training_of_too_few_steps_says_so_and_one_that_was_judged_before_does_not(tmp_path):
    keeper = Keeper(tmp_path, KEY)
    for steps, says in ((1, True), (300, False), (1, False)):
        training = _Training(keeper=keeper, devices=_Machine())
        training.steps(steps, data=0.005, compute=0.005)
        training.profile.close()
        assert training.run.said.get("falaj.training.next", "").startswith("Too few steps to judge: 1 were taken") == says
        assert ("falaj.training.verdict" in training.run.said) == (steps > 1)


def test_closing_twice_tells_once():
    training = _Training()
    training.profile.close()
    training.profile.close()
    assert training.run.closed == 1


def test_a_machine_that_cannot_be_read_stops_no_training():
    class Broken(Devices):
        def __init__(self):
            pass

        def sample(self):
            raise RuntimeError("no such device")

    training = _Training(devices=Broken())
    training.steps(40, data=0.06, compute=0.04)
    training.profile.close()
    assert training.run.closed == 1


def test_what_is_measured_before_a_change_counts_no_more():
    training = _Training()
    training.steps(40, data=0.06, compute=0.04)
    training.profile.look()
    training.profile.anew()
    assert training.profile.measured() is None
    training.steps(40, data=0.0, compute=0.04)
    training.profile.close()
    assert training.profile.verdicts[0].kind == "compute-bound"


def test_a_training_that_nobody_holds_is_not_followed_any_longer():
    training = _Training(devices=Devices(None, Processes()))
    training.profile.begin(RECIPE)
    held = weakref.ref(training.profile)
    assert "falaj-profile" in {thread.name for thread in threading.enumerate()}
    over = training.profile._over
    del training
    gc.collect()
    assert held() is None
    over.set()
