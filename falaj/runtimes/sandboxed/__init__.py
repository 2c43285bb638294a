"""Programs that load users' models. They run inside walls, by an interpreter that has the models' libraries, and import nothing
of ours but each other."""
