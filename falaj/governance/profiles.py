"""Profiles set in bulk what a deployment expects, so that one person is not bothered and a bank is not left open."""

from typing import Final

from falaj.base.clock import DAY, HOUR, MINUTE
from falaj.base.values import value

EVERY_ALIAS: Final = "*"
# `Production` is what old clients call it: a stage.
IN_PRODUCTION: Final = frozenset({"champion", "Production"})


@value
class Profile:
    """What the code asks of the deployment it runs in; lives are in microseconds.

    - `token_life`: the longest life of an API token; `session_life`: of a console session or a command-line sign-in.
    - `pass_life`: the life of the short-lived signed tokens that processes carry; never more than 15 minutes.
    - `zone_required`: a caller whose token declares no zone is refused everything inside projects.
    - `tls_required`: off loopback, nothing is served without TLS.
    - `admins_enter_projects`: a platform admin may administer every project (add members, himself included, which leaves a
      leaf). Where false, only a project's own admins may. In neither case does the role itself read a project's data.
    - `four_eyes`: the aliases of models that move only once somebody else approved; `EVERY_ALIAS` stands for all of them.
      However an alias is spelled: `Champion` is read as the champion by people, so it is not free where `champion` is not.
    - `users_code`: a model that only its own Python code can load may be converted, or served, in a sandbox.
    - `certificates`: an optimised variant of a model answers only with a certificate that holds.
    - `loosest_bp`: where that is so, what a certificate may allow at most to be lost over all, in hundredths of a per cent.
    """

    name: str
    token_life: int
    session_life: int
    pass_life: int
    zone_required: bool
    tls_required: bool
    admins_enter_projects: bool
    four_eyes: frozenset[str]
    users_code: bool
    certificates: bool
    loosest_bp: int

    def wants_four_eyes(self, alias: str) -> bool:
        return EVERY_ALIAS in self.four_eyes or alias.lower() in {wanting.lower() for wanting in self.four_eyes}


PROFILES: Final = {
    profile.name: profile
    for profile in (
        Profile(
            name="solo",
            token_life=366 * DAY,
            session_life=7 * DAY,
            pass_life=15 * MINUTE,
            zone_required=False,
            tls_required=False,
            admins_enter_projects=True,
            four_eyes=frozenset(),
            users_code=True,
            certificates=False,
            loosest_bp=100,
        ),
        Profile(
            name="team",
            token_life=90 * DAY,
            session_life=12 * HOUR,
            pass_life=15 * MINUTE,
            zone_required=False,
            tls_required=True,
            admins_enter_projects=True,
            four_eyes=IN_PRODUCTION,
            users_code=True,
            certificates=False,
            loosest_bp=100,
        ),
        Profile(
            name="regulated",
            token_life=30 * DAY,
            session_life=HOUR,
            pass_life=5 * MINUTE,
            zone_required=True,
            tls_required=True,
            admins_enter_projects=False,
            four_eyes=frozenset({EVERY_ALIAS}),
            users_code=False,
            certificates=True,
            loosest_bp=100,
        ),
    )
}
