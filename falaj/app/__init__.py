"""The composition root: settings become wired services and loops. The only room that names backends."""
