"""The first ten minutes: a throw-away platform, one story on real flights, and chapters that each show one promise kept.

Nothing here calls what a user cannot call: everything goes through commands, the typed client, and calls of an endpoint.
"""
