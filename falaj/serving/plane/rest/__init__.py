"""The Open Inference Protocol over HTTP/1.1: the edge that reads and writes connections, and what the words on them mean."""
