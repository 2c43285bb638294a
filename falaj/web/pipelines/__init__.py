"""Pages of pipelines and their runs, and the drawing of their steps that the command line shares."""
