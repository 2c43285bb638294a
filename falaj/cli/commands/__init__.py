"""One module for each noun. `main` knows them by name and loads one when it is needed."""
