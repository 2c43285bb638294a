"""Making variants of a model, and measuring them: in jobs alone, on bytes and arrays, without knowing the platform."""

import falaj.runtimes  # noqa: F401 - libraries that would call home are told not to before the first of them is imported
