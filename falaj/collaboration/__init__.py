"""People at work together: owners, comments, reviews, notices, share links, and what happened lately in a project."""
