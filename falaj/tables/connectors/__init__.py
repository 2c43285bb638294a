"""Where people's data already is, as streams of Arrow batches: one file per kind of place, named in one table in `opening`."""
