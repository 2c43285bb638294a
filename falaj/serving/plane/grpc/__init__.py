"""The Open Inference Protocol over gRPC, on an HTTP/2 of our own: a library's would answer a tenth as many requests."""
