"""The console: pages over declared operations, drawn on the server. A page never touches a store."""
