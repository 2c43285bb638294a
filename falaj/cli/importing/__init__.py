"""Bringing everything over from an existing MLflow. Nothing here needs MLflow's own package."""
