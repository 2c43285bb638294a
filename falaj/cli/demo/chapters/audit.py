"""What was in production then, approved by whom: answered, proven offline, and not to be forged."""

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any, Final

from falaj.cli.demo.chapters.ledgers import FORGERIES
from falaj.cli.demo.ground import CHECK, MODEL, PROJECT, Ground
from falaj.cli.demo.playing import Step
from falaj.cli.demo.stage import PATIENCE, expect

_FOUR_EYES: Final = """\
forbid (principal, action == Action::"model.promote", resource)
when { context has promotion && context.promotion.alias == "champion" && context.promotion.approvals < 1 };
"""


class Audit:
    """Noura moves models, Salem approves that."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.stage = ground, ground.stage
        self.tokens: dict[str, str] = {}
        self.moment = ""

    def steps(self) -> list[Step]:
        return [
            Step(
                title="Move the champion under four eyes",
                words="A rule of the project's own: nobody moves the champion alone.",
                play=self.promoted,
            ),
            Step(
                title="Ask what was in production then",
                words="Which version, trained on which data, approved by whom; with the proof of it.",
                play=self.as_of,
            ),
            Step(
                title="Prove it without Falaj",
                words="A hash function and one public key are enough: RFC 9162, and a signature.",
                play=self.proven_offline,
            ),
            Step(
                title="Forge copies of the ledger",
                words="Somebody wants to hide that he was refused. Four ways to do it; each is found, and named.",
                play=self.forged,
            ),
        ]

    def promoted(self) -> str:
        ground = self.ground
        ground.made()
        for name, role in (("noura", "engineer"), ("salem", "validator")):
            self.tokens[name] = self.stage.person(name, PROJECT, role)
        self.stage.falaj("policy", "put", "four-eyes", self.stage.written("four-eyes.cedar", _FOUR_EYES), "--project", PROJECT)
        self._moved_to(ground.former)
        self.moment = _now()
        time.sleep(0.01)  # so that what follows is not of the same moment
        self._moved_to(ground.champion)
        self.stage.falaj("policy", "delete", "four-eyes", "--project", PROJECT)
        return "each move waited for salem; noura could not approve her own, and an approval serves one move only"

    def _moved_to(self, version: int) -> None:
        waiting = self._model("promote", MODEL, str(version), by="noura", may_wait=True)
        expect(waiting["state"] == "waiting", f"Version {version} became champion without a second person.")
        self.stage.say(self._model("approve", waiting["approval"], by="noura", fails=True), "red")
        self._model("approve", waiting["approval"], by="salem")
        done = self._model("promote", MODEL, str(version), by="noura", may_wait=True)
        expect(done["state"] == "done", f"Version {version} was approved, and still did not move.")

    def as_of(self) -> str:
        then, today = self._proven(self.moment), self._proven(_now())
        approver = then["move"]["approvers"][0]["name"]
        data = ", ".join(f"{used['name']}@{used['digest'][:8]}" for used in then["data"])
        self.stage.say(f"at {self.moment}: version {then['version']}, of {data}, approved by {approver}")
        told = (then["version"], approver, today["version"])
        expect(told == (self.ground.former, "salem", self.ground.champion), f"The past is told wrongly: {told}.")
        proof = then["proof"]
        leaf = f"leaf {proof['index']} of {proof['head']['size']}"
        return f"version {then['version']} then and {today['version']} now; {leaf} proves it"

    def proven_offline(self) -> str:
        found = self._proven(self.moment)
        proof = self.stage.falaj("audit", "prove", found["leaf"])
        kept = self.stage.falaj("audit", "head")
        self.head = self.stage.written("head.json", json.dumps(kept))
        self.stage.say(f"$ python {CHECK.name} head.json", "dim")
        checked = [sys.executable, "-I", str(CHECK), self.head]
        done = subprocess.run(checked, input=json.dumps(proof), capture_output=True, text=True, timeout=PATIENCE, check=False)
        expect(done.returncode == 0, f"The proof does not hold: {done.stderr}")
        self.stage.say(done.stdout.strip())
        return f"leaf {proof['index']} proven with {len(proof['path'])} hashes; root and signature checked offline"

    def forged(self) -> str:
        export = self.stage.folder / "ledger.jsonl"
        self.stage.falaj("audit", "export", str(export))
        whole = self.stage.falaj("audit", "verify", "--file", str(export), "--head", self.head)
        expect(whole["ok"], f"The untouched export does not verify: {whole['findings']}")
        for forge, finding in FORGERIES:
            copy = self.stage.written(f"{forge.__name__}.jsonl", "".join(forge(export.read_text().splitlines(keepends=True))))
            report = self.stage.falaj("audit", "verify", "--file", copy, "--head", self.head, fails=True)
            found = {item["name"] for item in report["findings"]}
            self.stage.say(f"{forge.__name__}: {report['findings'][0]['message']}")
            expect(finding in found, f"{forge.__name__}: expected {finding}, found {sorted(found)}.")
        return "each caught and named: " + ", ".join(finding for _, finding in FORGERIES)

    # What the steps share

    def _model(self, *words: str, by: str, **ending: bool) -> Any:
        return self.ground.falaj("model", *words, token=self.tokens[by], **ending)

    def _proven(self, moment: str) -> Any:
        """The sequencer gives a leaf its place within about a second."""

        def look() -> Any:
            found = self._model("as-of", MODEL, "--alias", "champion", "--at", moment, by="salem", quietly=True)
            return found if found["proof"] is not None else None

        self.stage.say(f"$ falaj model as-of {MODEL} --alias champion --at {moment} --project {PROJECT}", "dim")
        return self.stage.until(look, "the ledger to have a proof")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
