"""What goes on beside a running job on a host: its keeper, its walls, its environment, its way to the platform."""
