"""Smaller, faster forms of registered models, each measured, the fit ones certified: what was planned, made, judged and signed.

`making` does the work inside a job; `training.shrinking` has what needs torch; `client.optimising` is the job's program.
"""
