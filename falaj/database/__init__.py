"""The one transactional store: SQLite embedded, Postgres for fleets. Rooms keep their SQL in their own `store.py`."""
