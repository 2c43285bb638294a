"""Prefect 3: flows of tasks that do nothing, over the server that PREFECT_API_URL names. Runs in an environment of its own. The
last line is JSON.

lifecycle_prefect.py RUNS TASKS CHAIN       tasks a second: RUNS flows of TASKS each, in each of the ways it has, and one flow
                                            of CHAIN tasks
"""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from prefect import __version__, flow, task

AT_ONCE = 8


@task
def nothing(given):
    return given


@flow
def one_after_the_other(steps):
    given = 0
    for _ in range(steps):
        given = nothing(given)
    return given


@flow
def submitted(steps):
    for future in [nothing.submit(number) for number in range(steps)]:
        future.result()


def in_turn(runs, tasks):
    for _ in range(runs):
        one_after_the_other(tasks)


def in_threads(runs, tasks):
    with ThreadPoolExecutor(min(runs, AT_ONCE)) as pool:
        list(pool.map(one_after_the_other, [tasks] * runs))


def tasks_at_once(runs, tasks):
    for _ in range(runs):
        submitted(tasks)


def tasks_per_s(way, runs, tasks):
    began = time.perf_counter()
    way(runs, tasks)
    return round(runs * tasks / (time.perf_counter() - began), 1)


def main(runs, tasks, chain):
    one_after_the_other(2)
    found = {way.__name__: tasks_per_s(way, runs, tasks) for way in (in_turn, in_threads, tasks_at_once)}
    return found | {"chain": tasks_per_s(in_turn, 1, chain), "version": __version__}


if __name__ == "__main__":
    print(json.dumps(main(*map(int, sys.argv[1:]))))
