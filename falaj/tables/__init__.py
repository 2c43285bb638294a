"""Tables of data: sealed Parquet parts, read, checked, described, queried and joined. Runs wherever the data may be."""
