"""Models that become smaller while they are trained: by a teacher's example, or by weights that are taken away."""
