"""Where `falaj` begins: the table of commands, loaded when they are named, and the one place that turns errors into words.

Nothing heavy may be imported here: `falaj --help` answers at once.
"""

import os
import re
import sys
import traceback
from importlib import import_module
from importlib.resources import files
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from falaj.base.errors import FalajError, Forbidden, Invalid, Unauthenticated
from falaj.cli.passing_on import meant

# Command -> (the module in `commands` that has it, what it does). A module named like the command is a group of its own.
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run the platform": {
        "demo": ("demo", "Play a year of real flights on a throw-away platform."),
        "up": ("up", "Start the platform and say how to sign in."),
        "down": ("up", "Stop the platform."),
        "status": ("status", "Say whether the platform runs and how its parts are."),
        "console": ("status", "Open the console in a browser, signed in."),
        "doctor": ("doctor", "Check the home and say how to mend what is wrong."),
        "backup": ("backup", "Make, check and restore backups."),
        "upgrade": ("upgrade", "Bring the database to this version's schema, after a backup."),
        "support-bundle": ("doctor", "Collect what a supporter needs, without secrets or names."),
        "version": ("version", "Say which version this is."),
    },
    "Who may do what": {
        "login": ("login", "Sign in through your identity provider."),
        "logout": ("login", "Forget the sign-in on this machine."),
        "whoami": ("login", "Say who you are to the platform."),
        "project": ("project", "Projects and their members."),
        "zone": ("zone", "Zones: places under a jurisdiction."),
        "user": ("user", "People."),
        "service": ("service", "Service accounts of projects."),
        "group": ("group", "Roles that groups of the identity provider bring."),
        "token": ("token", "Your API tokens."),
        "policy": ("policy", "Rules beyond the roles, and why a call was allowed or refused."),
    },
    "Experiments and models": {
        "experiment": ("experiment", "Experiments: named folders of runs."),
        "run": ("run", "Runs: what was tried, with what, and how well it did."),
        "artifact": ("artifact", "Files of runs and of the models they logged."),
        "model": ("model", "Registered models: versions, which is in production, who moved it there."),
        "lineage": ("lineage", "What came from what."),
        "gate": ("gate", "What a version has to show before it is promoted."),
        "ci": ("ci", "Run the gates of a version in a CI system."),
        "comment": ("comment", "Comments on experiments, runs, models and versions."),
        "review": ("review", "A colleague's advice on a run or a version."),
        "activity": ("activity", "What was done lately in a project."),
        "import": ("imports", "Bring everything over from an existing MLflow."),
    },
    "Serving": {
        "deploy": ("deploy", "Serve a registered version behind a name."),
        "endpoint": ("endpoint", "Endpoints: who answers, who gets what, how it goes."),
        "predict": ("predict", "Ask an endpoint."),
        "batch": ("batch", "Predict for a whole dataset, as a job."),
        "optimise": ("optimise", "Make a model smaller and faster, with a certificate."),
        "export": ("export", "Take an endpoint to Triton, KServe or a host of its own."),
        "plane": ("plane", "Hosts that answer predictions."),
        "serve": ("serve", "Answer predictions on this host."),
    },
    "Monitoring": {
        "monitor": ("monitor", "What is watched of endpoints, how they are, what drifted."),
        "alert": ("alert", "What monitors found, who was told, what was done."),
        "abtest": ("abtest", "A/B tests: which revision brings more, however often you look."),
        "channel": ("channel", "Where alerts are sent."),
        "labels": ("labels", "What became of predictions, and how good they were."),
    },
    "Pipelines": {
        "init": ("init", "Make a project with a pipeline that trains continuously."),
        "pipeline": ("pipeline", "Steps done one after the other, durably: run, followed, resumed, started by events."),
    },
    "Jobs": {
        "train": ("train", "Train with a script or notebook, on one or several hosts."),
        "job": ("job", "Run commands when and where there is a share for them."),
        "tune": ("tune", "Search for the parameters that do best, each trial a job."),
        "queue": ("queue", "Shares of CPUs and GPUs, lent and taken back."),
        "node": ("node", "Hosts that jobs run on."),
        "capacity": ("capacity", "Whether there is enough of everything."),
        "secret": ("secret", "Secrets that jobs see as variables."),
    },
    "Data and record": {
        "dataset": ("dataset", "Datasets: data that is named, versioned and sealed."),
        "place": ("place", "Places: where data is that stays there."),
        "feature": ("feature", "Features: what is known of entities, the same in training and in serving."),
        "blob": ("blob", "Sealed blobs of a project."),
        "key": ("key", "The key ring and its recovery kit."),
        "audit": ("audit", "The ledger: read it, verify it, prove from it, follow it."),
    },
}
TABLE = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class LazyGroup(TyperGroup):
    """Knows its commands by the table and imports a command's module only to run it or to show its own help."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(TABLE)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in TABLE:
            return None
        if cmd_name not in self.commands:
            module = import_module(f"falaj.cli.commands.{TABLE[cmd_name][0]}")
            group = module.commands.built()
            self.commands[cmd_name] = group.commands.get(cmd_name, group)
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, told) for name, (_, told) in commands.items()])


application = typer.Typer(
    cls=LazyGroup,
    help="One platform from raw data to a monitored, governed model in production. Begin with: falaj up",
    epilog="Every command takes --json for programs and --help with an example.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@application.callback()
def falaj() -> None: ...


def main() -> NoReturn:
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status: 0 done, 1 failed, 2 asked wrongly, 3 waits for others."""
    try:
        status = typer.main.get_command(application).main(arguments, prog_name="falaj", standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; what is still buffered must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except typer.TyperException as error:
        return _asked_wrongly(error, arguments)
    except typer.Abort:
        return 1
    except FalajError as error:
        _say(f"{_told(error)} {_next_step(error)}")
        if os.environ.get("FALAJ_DEBUG"):
            traceback.print_exc()
        return 2 if isinstance(error, Invalid) else 1
    except Exception as error:  # noqa: BLE001  (the last catch: nobody is shown a traceback unasked)
        return _unexpected(error)


def _asked_wrongly(error: typer.TyperException, arguments: list[str]) -> int:
    text = error.format_message()
    if text.startswith("Usage:"):  # a group was named without a command: its help is the answer
        print(text, file=sys.stderr)
        return 2
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "falaj"
    line = meant(context, arguments) if hasattr(error, "option_name") else ""
    _say(f"{text} See: {path} --help{f'; for the script or program itself: {line}' if line else ''}")
    return error.exit_code


def _unexpected(error: Exception) -> int:
    if os.environ.get("FALAJ_DEBUG"):
        traceback.print_exc()
    if isinstance(error, OSError) and error.filename is not None:
        _say(f"{error.filename}: {error.strerror}.")
        return 1
    _say(
        f"Something unexpected happened: {type(error).__name__}: {error}. Set FALAJ_DEBUG=1 to see where; "
        "`falaj support-bundle` collects what a supporter needs."
    )
    return 1


def _told(error: FalajError) -> str:
    """The platform's own words, less the advice that is given here as a command."""
    return re.sub(r"[.;] sign in again\.$", ".", str(error), flags=re.IGNORECASE)


def _next_step(error: FalajError) -> str:
    if isinstance(error, Unauthenticated) and "`falaj " not in str(error):
        return "Sign in with `falaj login`, or set FALAJ_TOKEN."
    if isinstance(error, Forbidden) and error.rule:
        return (
            f"(rule {error.rule}; `falaj policy explain` says what decides)"
            if _is_policy(error.rule)
            else f"(rule {error.rule})"
        )
    return ""


def _is_policy(rule: str) -> bool:
    """Whether a Cedar policy, or the lack of one, is behind it. Of other rules `policy explain` knows nothing."""
    builtin = files("falaj.governance.policies").joinpath("builtin.cedar").read_text(encoding="utf-8")
    return rule == "no-permit" or "/" in rule or f'@id("{rule}")' in builtin


def _say(text: str) -> None:
    """One line, whatever the message was made of."""
    line = " ".join(text.split())
    print("falaj: " + "".join(letter if letter.isprintable() else "�" for letter in line), file=sys.stderr)


if __name__ == "__main__":
    main()
