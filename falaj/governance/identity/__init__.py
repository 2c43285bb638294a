"""People, service accounts, their roles, and the tokens by which they are known."""
