"""The MLflow face: what stock MLflow clients say over HTTP, adapted to declared operations and to the dispatcher."""
