"""What came from what: data, runs, models, versions, endpoints. Rooms above link what they make; this one walks the links."""
