"""Programs that run inside a sandbox, where users' code is loaded. Neither they nor Falaj import the other."""
