"""What lies between a face and an engine: who may ask, which revision answers, in which batch, and what is counted.

`core.ServingCore` is the door; everything behind it runs on the loop's thread unless its docstring says otherwise.
"""
