"""Why a training cannot be started, or not go on. By the code a job knows whether trying again could help."""


class Failed(Exception):
    """It may go better the next time."""

    code = 1


class Unfit(Failed):
    """It would end the same way again."""

    code = 126


class Missing(Failed):
    """So would this: a program is not in the job's environment."""

    code = 127
