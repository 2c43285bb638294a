"""Gates: what a version has to show before it is promoted, who looks for it, and how it is judged."""
