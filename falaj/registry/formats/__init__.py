"""Kinds of model files, told apart and looked into by their bytes alone: one file per format, and none needs its library."""
