"""The clock that splits steps into phases, on a time that tests turn by hand."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.training.profiling.clock import COMPUTE, DATA, OTHER, NoClock, StepClock
from falaj.training.profiling.names import PHASES


class _Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class _Device:
    """A device that spends on each phase what it is told to, whatever the program does meanwhile."""

    cost = 160e-6

    def __init__(self, spends):
        self.spends, self.followed, self.open, self.done = spends, 0, [], []

    def begin(self, phase):
        self.followed += 1
        self.open = [phase]

    def mark(self, phase):
        self.open.append(phase)

    def end(self):
        self.done.append(self.open)

    def take(self):
        spent = [0.0] * len(PHASES)
        for marks in self.done:
            for phase in marks[:-1]:
                spent[phase] += self.spends.get(phase, 0.0)
        self.done = []
        return spent if any(spent) else ()


def _step(clock, time, data, compute):
    clock.turn(DATA)
    time.now += data
    clock.turn(COMPUTE)
    time.now += compute
    clock.saw(32, 64)
    clock.stepped()


def _split(window):
    return {name: round(share, 9) for name, share in zip(PHASES, window.spent, strict=True) if share}


def test_steps_are_split_after_the_warm_up():
    time = _Time()
    clock = StepClock(now=time, first=0.95, warm_up=2)
    for _ in range(2):
        _step(clock, time, 5.0, 50.0)  # compiles
    for _ in range(10):
        _step(clock, time, 0.04, 0.06)
    (window,) = clock.windows
    assert (window.steps, window.last, window.rows, window.tokens) == (10, 12, 320, 640)
    assert _split(window) == {"data": 0.4, "compute": 0.6}


def test_windows_grow_so_that_a_long_training_has_few_points():
    time = _Time()
    clock = StepClock(now=time, first=2.0, warm_up=1)
    for _ in range(2000):
        _step(clock, time, 0.0, 0.1)
    assert [round(one.seconds) for one in clock.windows] == [2, 4, 8, 16, 30, 30, 30, 30, 30]


def test_a_short_training_has_its_window_when_it_is_closed_and_a_shorter_one_none():
    time = _Time()
    clock = StepClock(now=time, warm_up=2)
    for _ in range(2):
        _step(clock, time, 0.1, 0.1)
    clock.close()
    assert not clock.windows
    _step(clock, time, 0.1, 0.3)
    clock.close()
    assert [_split(one) for one in clock.windows] == [{"data": 0.1, "compute": 0.3}]


def test_a_device_says_itself_where_its_time_went():
    time, device = _Time(), _Device({DATA: 0.002, COMPUTE: 0.006})
    clock = StepClock(now=time, timeline=device, first=1.0, warm_up=1)
    for _ in range(120):
        _step(clock, time, 0.0099, 0.0001)  # the program waits for data while the device computes what it was given before
    window = clock.windows[0]
    assert {name: round(share / window.seconds, 6) for name, share in _split(window).items()} == {"data": 0.25, "compute": 0.75}


def test_short_steps_are_followed_rarely_on_a_device():
    time, device = _Time(), _Device({COMPUTE: 0.001})
    clock = StepClock(now=time, timeline=device, first=0.5, warm_up=1)
    for _ in range(500):
        _step(clock, time, 0.0, 0.001)
    before, device.followed = device.followed, 0
    for _ in range(800):
        _step(clock, time, 0.0, 0.001)
    assert before > 400
    assert device.followed * device.cost <= 0.002 * 0.8 * 1.02


def test_no_clock_measures_nothing():
    clock = NoClock()
    clock.turn(OTHER)
    for _ in range(10):
        clock.stepped()
    clock.close()
    assert not clock.windows


@given(st.lists(st.tuples(st.sampled_from(range(len(PHASES))), st.floats(0.0, 5.0)), max_size=200))
def test_no_time_is_lost_and_none_counted_twice(turns):
    time = _Time()
    clock = StepClock(now=time, first=3.0, warm_up=0)
    for phase, seconds in turns:
        clock.turn(phase)
        time.now += seconds
        clock.stepped()
    clock.close()
    assert abs(sum(sum(one.spent) for one in clock.windows) - (time.now - 100.0)) < 1e-6
    assert sum(one.steps for one in clock.windows) == len(turns)


def test_after_a_change_the_clock_warms_up_again():
    time = _Time()
    clock = StepClock(now=time, first=100.0, warm_up=2)
    for _ in range(20):
        _step(clock, time, 0.3, 0.1)
    clock.anew()
    for _ in range(2):
        _step(clock, time, 9.0, 9.0)  # processes start
    for _ in range(3):
        _step(clock, time, 0.0, 0.1)
    clock.close()
    assert [(one.steps, _split(one)) for one in clock.windows] == [(3, {"compute": 0.3})]
