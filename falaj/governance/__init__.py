"""Who may do what, where: identity, policy, projects, zones, and the ledger of what was done."""
