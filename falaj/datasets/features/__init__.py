"""Feature views: what is known of entities, defined once over datasets, for training sets and for serving alike."""
