"""Hosts that can be had on demand: how many are needed, having them added and given back, and saying so to those who wait."""
