"""What Falaj's serving is compared with: the peers' servers, the requests all of them get, and what sends those."""
