"""Speed claims, measured: each benchmark runs peers and limits beside Falaj and ends with one line of JSON."""
