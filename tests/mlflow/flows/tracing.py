"""What Falaj does not serve: a traced function still works, its run is tracked, and the client only warns."""

import time

import mlflow
from mlflow import MlflowClient
from refusals import refused

client = MlflowClient()
mlflow.set_experiment("traced")


@mlflow.trace
def double(number):
    return 2 * number


with mlflow.start_run() as run:
    assert [double(number) for number in range(3)] == [0, 2, 4]
    mlflow.log_metric("doubled", 3)
assert client.get_run(run.info.run_id).data.metrics == {"doubled": 3.0}

started = time.monotonic()
said = refused("NOT_IMPLEMENTED", client.search_traces, experiment_ids=[run.info.experiment_id])
assert "does not serve traces" in said
assert time.monotonic() - started < 2, "it is not worth trying again"
assert "prompts" in refused("NOT_IMPLEMENTED", mlflow.register_prompt, name="greeting", template="Hello {{name}}")
print("done")
