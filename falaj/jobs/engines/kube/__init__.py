"""What the Kubernetes engine is made of: the conversation with the API server, manifests, and what pods and nodes say."""
