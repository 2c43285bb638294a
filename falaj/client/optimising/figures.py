"""What was measured and found of a model, as the platform is told it."""

from falaj.optimisation.making.measuring import Measured, compare
from falaj.optimisation.making.profiles import Profile
from falaj.optimisation.making.running import Device
from falaj.optimisation.making.values import Made, Sample
from falaj.optimisation.operations.optimisations import Profile as ProfileTold
from falaj.optimisation.operations.words import Measures

_MOST_OPERATORS = 200


def of_original(original: Made, sample: Sample, *, price: float, gpu_price: float, device: Device) -> Measures:
    (found,) = compare([original], sample, price=price, gpu_price=gpu_price, device=device)
    return _told(found)


def measured(
    made: Made,
    original: Made,
    sample: Sample,
    *,
    drop: float,
    changes: float,
    memory: int,
    price: float,
    gpu_price: float,
    device: Device,
) -> tuple[Measures, Measures]:
    """Of it and of the original, in turn, in one process: a noisy neighbour hits both. `memory` is the original's, which is
    the same each time."""
    theirs, ours = compare([original, made], sample, memory=[memory], price=price, gpu_price=gpu_price, device=device)
    threads = int(made.settings.get("threads", 1))  # cores are others' too: what takes two has to be twice as fast
    return _told(ours, drop, changes, ours.rows_per_s / theirs.rows_per_s / threads), _told(theirs)


def _told(one: Measured, drop: float = 0.0, changes: float = -1.0, times: float = 1.0) -> Measures:
    return Measures(
        drop=drop,
        changes=changes,
        times=times,
        rows_per_s=one.rows_per_s,
        batch=one.batch,
        p50_ms=one.p50_ms,
        p50_low=one.p50_low,
        p50_high=one.p50_high,
        p99_ms=one.p99_ms,
        p99_low=one.p99_low,
        p99_high=one.p99_high,
        size=one.size,
        memory=one.memory,
        joules=one.joules,
        energy=one.energy,
        cost=one.cost,
        device="gpu" if one.device == "gpu" else "cpu",
    )


def profile_told(profile: Profile) -> ProfileTold:
    operators = sorted(profile.operators.items(), key=lambda one: (-one[1], one[0]))
    return ProfileTold(
        family=profile.family,
        parameters=profile.parameters,
        opset=profile.opsets.get("", 0),
        operators=tuple(f"{name} {count}" for name, count in operators[:_MOST_OPERATORS]),
    )
