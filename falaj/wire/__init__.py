"""What both HTTP faces, the API and the console, share: statuses, bodies, limits and rates."""
