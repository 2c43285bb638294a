"""The decision: who runs where and when, who waits for what, who gives back. No engine, no database, no clock of its own."""
