"""The online store: the newest feature values of every entity, read one entity at a time in microseconds.

`views` is what others use; `rows` and `packing` are how values become bytes, `sealing` how those are hidden. Each backend of
`stores.OnlineStore` has a file of its own and sees neither names nor values.
"""
