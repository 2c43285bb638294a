"""Studies over the queue: each trial a run and a job. The runs are all there is to know; nothing else is kept anywhere."""
