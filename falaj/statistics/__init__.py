"""Pure statistics for whoever compares samples: training's checks, and monitoring. Needs numpy alone."""
