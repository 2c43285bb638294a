"""What runs jobs: local processes, Ray, Kubernetes, behind one protocol and one conformance suite."""
