"""Queues that share, a scheduler that explains itself, and the engines that run jobs."""
