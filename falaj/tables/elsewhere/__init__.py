"""Tables that stay where they are: what is read of them inside walls."""
