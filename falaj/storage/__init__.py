"""Sealed blobs: stored in a folder or in S3, readable only with the project's key, gone when their key is."""
