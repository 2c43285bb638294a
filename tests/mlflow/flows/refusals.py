"""What the platform refuses, as a client sees it."""

from mlflow.exceptions import MlflowException


def refused(code, function, *arguments, **named):
    """Calls a function that must fail with this error code; the message."""
    error = _raised(function, arguments, named)
    assert error is not None, f"{function} was not refused"
    assert error.error_code == code, error
    return str(error)


def _raised(function, arguments, named):
    try:
        function(*arguments, **named)
    except MlflowException as error:
        return error
    return None
