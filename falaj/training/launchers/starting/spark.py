"""Spark: the script is the driver. On one node it has its executors within itself; on several the first task runs a master
beside it, and each task a worker. They know each other by a secret, and what they say is encrypted."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from falaj.training.launchers.starting import meeting
from falaj.training.launchers.starting.children import Children
from falaj.training.launchers.starting.failures import Missing
from falaj.training.launchers.starting.seats import Seat, Told, secret_for

_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"
_QUIET: Final = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
# What a master and its workers offer to whoever asks, secret or not: to end applications, and to begin some.
_CLOSED: Final = {
    "spark.ui.killEnabled": "false",
    "spark.master.rest.enabled": "false",
    "spark.master.ui.decommission.allow.mode": "DENY",
}
_WORDS: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.log.ref = log
appender.log.type = Console
appender.log.name = log
appender.log.target = SYSTEM_ERR
appender.log.layout.type = PatternLayout
appender.log.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
_WHERE: Final = "import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent)"


def start(seat: Seat, told: Told) -> int:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Missing("Spark needs Java: apt-get install default-jre-headless on the hosts, or name an --image with it.")
    script = [sys.executable, *told.script]
    with Children() as children:
        if seat.size == 1:
            settings = _settled({"spark.master": f"local[{told.cpus}]", "spark.driver.host": "127.0.0.1"})
            return children.end_of(children.start(script, {"SPARK_CONF_DIR": settings, "SPARK_LOCAL_IP": "127.0.0.1"}))
        return _together(seat, told, script, children)


def _together(seat: Seat, told: Told, script: list[str], children: Children) -> int:
    # 1. All are there: the port is the meeting's first and the master's then.
    own = meeting.meet(seat, "")[seat.rank][0]
    master = f"spark://{seat.address}:{seat.port}"
    settings = _settled({"spark.master": master, "spark.driver.host": seat.address} | _protected())
    variables = {"SPARK_CONF_DIR": settings, "SPARK_LOCAL_IP": own}
    java = [f"{_home()}/bin/spark-class"]
    needed = []
    if seat.rank == 0:
        leading = [*java, _MASTER, "--host", own, "--port", str(seat.port), "--webui-port", "0"]
        needed.append(children.start(leading, variables, hears=False))
    # 2. Every task offers its cores.
    offered = ["--host", own, "--webui-port", "0", "--cores", str(told.cpus), "--work-dir", f"{settings}/work"]
    working = [*java, _WORKER, *offered, master]
    needed.append(children.start(working, variables, hears=False))
    # 3. The first one drives; the others stay for as long as the master does.
    if seat.rank == 0:
        return children.end_of(children.start(script, variables), *needed)
    return children.end_when_gone(seat.address, seat.port, needed[-1])


def _protected() -> dict[str, str]:
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": secret_for("spark"),
        "spark.network.crypto.enabled": "true",
        "spark.network.crypto.cipher": "AES/GCM/NoPadding",
        "spark.io.encryption.enabled": "true",
    } | _CLOSED


def _settled(settings: dict[str, str]) -> str:
    """A folder with the settings, which are the job's own to read: on a command line all would see them."""
    folder = Path(tempfile.mkdtemp(prefix="spark-"))
    lines = [f"{name} {text}\n" for name, text in (settings | _QUIET).items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    (folder / "log4j2.properties").write_text(_WORDS)
    return str(folder)


def _home() -> str:
    return subprocess.run([sys.executable, "-c", _WHERE], capture_output=True, text=True, check=True).stdout.strip()
