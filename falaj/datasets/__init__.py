"""Datasets and features: versions of data that can be named, reproduced, compared and explained."""
