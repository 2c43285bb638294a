"""From a script to a training on one or several hosts: what it trains with is read, how it is started is chosen, and what
starts it travels along. Needs the standard library alone; `starting` runs within the job."""
