"""Bare DBOS: workflows of steps that do nothing, durable on SQLite. Runs in an environment of its own. The last line is JSON.

lifecycle_dbos.py FOLDER JOURNAL RUNS STEPS CHAIN       steps a second: RUNS workflows of STEPS each, started at once in each of
                                                        the ways it has, and one workflow of CHAIN steps

JOURNAL is SQLite's: "delete" is what DBOS leaves it at, "wal" what makes it faster. Both commit with synchronous=FULL.
"""

import asyncio
import json
import sqlite3
import sys
import time
from importlib.metadata import version
from pathlib import Path

from dbos import DBOS, DBOSConfig


@DBOS.step()
def nothing(given):
    return given


@DBOS.workflow()
def many(steps):
    given = 0
    for _ in range(steps):
        given = nothing(given)
    return given


@DBOS.step()
async def nothing_async(given):
    return given


@DBOS.workflow()
async def many_async(steps):
    given = 0
    for _ in range(steps):
        given = await nothing_async(given)
    return given


def in_threads(runs, steps):
    """By its own pool of threads, as many at once as that has."""
    for handle in [DBOS.start_workflow(many, steps) for _ in range(runs)]:
        handle.get_result()


def in_turn(runs, steps):
    for _ in range(runs):
        many(steps)


def by_coroutines(runs, steps):
    async def all_of_them():
        for handle in [await DBOS.start_workflow_async(many_async, steps) for _ in range(runs)]:
            await handle.get_result()

    asyncio.run(all_of_them())


def steps_per_s(way, runs, steps):
    began = time.perf_counter()
    way(runs, steps)
    return round(runs * steps / (time.perf_counter() - began), 1)


def main(folder, journal, runs, steps, chain):
    file = folder / f"dbos-{time.time_ns()}.sqlite"
    with sqlite3.connect(file) as database:
        database.execute(f"PRAGMA journal_mode={journal}")
    database.close()
    DBOS(config=DBOSConfig(name="bench", system_database_url=f"sqlite:///{file}", log_level="ERROR"))
    DBOS.launch()
    try:
        in_turn(1, steps)
        found = {way.__name__: steps_per_s(way, runs, steps) for way in (in_threads, in_turn, by_coroutines)}
        found["chain"] = steps_per_s(in_turn, 1, chain)
    finally:
        DBOS.destroy()
    with sqlite3.connect(file) as database:
        kept = database.execute("select count(*) from operation_outputs").fetchone()[0]
        found["journal"] = database.execute("PRAGMA journal_mode").fetchone()[0]
    database.close()
    if kept != steps + 3 * runs * steps + chain:
        raise SystemExit(f"DBOS has kept {kept} steps")
    return found | {"version": version("dbos")}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))))
