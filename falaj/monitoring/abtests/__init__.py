"""A/B tests: what each unit brought, what the arms have come to, what is concluded of that, and what is done then."""
