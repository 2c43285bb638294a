"""What runs in each task of a training's job, by the job's own interpreter and with its standard library alone."""
