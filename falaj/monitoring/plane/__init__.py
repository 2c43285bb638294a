"""Watching where predictions are made: what runs in a serving plane's workers. `falaj.app.serving_plane` names it."""
