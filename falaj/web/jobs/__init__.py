"""What the pages of jobs, queues and hosts ask for, and what they make of the answers."""
