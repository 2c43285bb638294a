"""Models that do harm when they are loaded, and the files around them."""

import json
import textwrap

from falaj.runtimes.sandbox import END_OF_FILES, packed

REQUEST = {"flavours": {"sklearn": "model.pkl"}, "columns": [], "tensors": []}


class _Runs:
    def __init__(self, code):
        self._code = code

    def __reduce__(self):
        return exec, (self._code,)


def pickled(code):
    """A pickle that runs `code` when it is loaded."""
    import pickle

    return pickle.dumps(_Runs(textwrap.dedent(code)))


def model_files(model, request=REQUEST):
    return {"falaj-model.json": json.dumps(request).encode(), "model.pkl": model}


def sent(files):
    for name, content in files.items():
        yield from packed(name, len(content), (content,))
    yield END_OF_FILES
