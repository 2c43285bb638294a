"""Labels joined with what was known of their entities at their moments: training sets, and the same values for serving."""
