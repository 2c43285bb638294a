"""The record: a leaf per call in the call's own transaction, put in order, hashed into a Merkle tree and signed afterwards."""
