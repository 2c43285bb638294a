"""What MLflow has and Falaj has not: answered in MLflow's own words, so that autologging warns and the script goes on."""

from typing import Final, NoReturn

from falaj.api.mlflow.adapters import Visit, perform
from falaj.api.mlflow.bodies import Empty
from falaj.api.mlflow.failures import NoEndpoint, NotServed

# By the word behind `/mlflow/` in the path.
FAMILIES: Final = {
    "traces": "traces of GenAI applications",
    "unified-traces": "traces of GenAI applications",
    "get-online-trace-details": "traces of GenAI applications",
    "get-trace-artifact": "traces of GenAI applications",
    "assessments": "assessments of traces",
    "scorers": "scorers",
    "datasets": "evaluation datasets",
    "issues": "issues of traces",
    "label-schemas": "label schemas",
    "review-queues": "review queues",
    "prompts": "prompts",
    "prompt-optimization": "the optimisation of prompts",
    "gateway": "the AI gateway",
    "gateway-proxy": "the AI gateway",
    "webhooks": "webhooks",
    "jobs": "the jobs of MLflow's own server",
    "mcp-servers": "the registry of MCP servers",
}
PROMPT_TAG: Final = "mlflow.prompt.is_prompt"


def _refuse(visit: Visit, _body: Empty) -> NoReturn:
    """The path is what was asked for, split at its slashes."""
    parts = visit.path
    if parts[1:] == ("v1", "traces"):
        # Clients know these words, and stop sending spans.
        raise NotServed("REST OTLP span logging is not supported by Falaj.")
    if len(parts) > 4 and parts[3] == "mlflow" and (family := FAMILIES.get(parts[4])):
        raise NotServed(f"Falaj does not serve {family}; it serves experiments, runs, models and artifacts.")
    if "presigned" in parts or parts[-1].startswith("presigned-"):
        raise NotServed("Falaj keeps artifacts sealed, so there are no addresses of storage to hand out: go through it.")
    raise NoEndpoint(f"Falaj has no endpoint {'/'.join(parts)[:200]!r} for this method.")


def refuse_prompt(tags: dict[str, str]) -> None:
    """Prompts come as registered models with a tag that says so."""
    if tags.get(PROMPT_TAG, "").lower() == "true":
        raise NotServed("Falaj does not serve prompts; it serves experiments, runs, models and artifacts.")


UNSERVED: Final = perform("mlflow.unserved", Empty, _refuse)
