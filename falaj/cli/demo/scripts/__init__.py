"""What the demo's jobs run: scripts as a user writes them, sent along by `falaj train`. They are not imported here."""
