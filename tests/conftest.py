"""The real servers that tests run against; each starts when a test first asks for it."""

pytest_plugins = [
    "tests.servers.processes",
    "tests.servers.postgres",
    "tests.servers.s3",
    "tests.servers.oidc",
    "tests.servers.softhsm",
    "tests.servers.browser",
]
