"""The demo's models: a promotion under four eyes, a rollback, and the past. `job_story` has them trained."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stage import PATIENCE, Stage, expect

HERE = Path(__file__).parent
PROJECT = "clinic"
MODEL = "tumour-check"
FOUR_EYES = """\
forbid (principal, action == Action::"model.promote", resource)
when { context has promotion && context.promotion.alias == "champion" && context.promotion.approvals < 1 };
"""


class ModelStory:
    """Steps like those of `Demo`, in a project of its own: noura trains and promotes, salem approves."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.falaj = stage, stage.falaj
        self.tokens: dict[str, str] = {}
        self.patients: list[dict[str, float]] = []  # whom the models have not seen

    def join(self) -> None:
        """The project and its people."""
        self.falaj("project", "create", PROJECT, "--zone", "home")
        for name, role in (("noura", "engineer"), ("salem", "validator")):
            invited = self.falaj("user", "create", name)
            self.falaj("project", "member", "add", PROJECT, name, role)
            self.tokens[name] = self.stage.signed_in(invited["code"])

    def promoted(self) -> str:
        """The project's own rule: the champion moves only once somebody else has approved that very move."""
        rule = self.stage.folder / "four-eyes.cedar"
        rule.write_text(FOUR_EYES)
        self.falaj("policy", "put", "four-eyes", str(rule), "--project", PROJECT)
        for version in ("1", "2"):
            waiting = self.promote(version)
            expect(waiting["state"] == "waiting", f"Version {version} became champion without a second person.")
            refused = self.model("approve", waiting["approval"], by="noura", fails=True)
            self.stage.say(refused)
            self.model("approve", waiting["approval"], by="salem")
            expect(self.promote(version)["state"] == "done", f"Version {version} was approved, and still did not move.")
            self.moment = now()
        return "each waited for salem; noura could not approve her own, and an approval serves one move only"

    def rolled_back(self) -> str:
        """One command, under the same policy: what was approved for this alias before may come back at once."""
        back = self.model("rollback", MODEL, "--yes", by="noura")
        expect((back["version"], back["before"]) == (1, 2), f"The rollback went from {back['before']} to {back['version']}.")
        loaded = self.model("verify", MODEL, "champion", by="noura")
        expect(loaded["ok"], "The champion is not what was signed.")
        return "the champion is version 1 again, and every byte of it is what was signed"

    def as_of(self) -> str:
        """Which version was the champion at that moment, trained on what, approved by whom; with a proof from the ledger."""
        found = self.proven(self.moment)
        approver = found["move"]["approvers"][0]["name"]
        data = ", ".join(f"{used['name']}@{used['digest']}" for used in found["data"])
        self.stage.say(f"at {self.moment}: version {found['version']}, data {data}, approved by {approver}")
        expect((found["version"], approver) == (2, "salem"), "The past is told wrongly.")
        expect(self.proven(now())["version"] == 1, "The present is told wrongly.")
        proof = found["proof"]
        return f"version 2 then and 1 now; leaf {proof['index']} is proven in a tree of {proof['head']['size']}"

    # What the steps share

    def promote(self, version: str) -> Any:
        return self.model("promote", MODEL, version, by="noura", may_wait=True)

    def model(self, *words: str, by: str, **ending: bool) -> Any:
        return self.falaj("model", *words, "--project", PROJECT, token=self.tokens[by], **ending)

    def proven(self, moment: str) -> Any:
        """The sequencer gives a leaf its place within about a second."""
        deadline = time.monotonic() + PATIENCE
        while True:
            found = self.model("as-of", MODEL, "--alias", "champion", "--at", moment, by="salem")
            if found["proof"] is not None:
                return found
            expect(time.monotonic() < deadline, f"The ledger has no proof: {found['ledger']}")
            time.sleep(0.2)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
