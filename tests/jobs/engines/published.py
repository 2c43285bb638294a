"""The published schemas of Kubernetes, JobSet and Kueue (`schemas/`), and rules beside them that JSON Schema cannot hold."""

import functools
import json
import re
from pathlib import Path

import jsonschema
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from falaj.jobs.engines.kube.hosts import quantity

SCHEMAS = {
    name: json.loads((Path(__file__).parent / "schemas" / f"{name}.json").read_text())
    for name in ("kubernetes", "kueue", "jobset")
}
REGISTRY = Registry().with_resources(
    (f"{name}.json", Resource.from_contents(schema, default_specification=DRAFT202012)) for name, schema in SCHEMAS.items()
)
# What JSON Schema cannot hold, of the rules in `x-kubernetes-validations` and of Kubernetes' own validation.
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


class Refused(Exception):
    pass


def validate(body):
    """As an API server does with `fieldValidation=Strict`."""
    kind = f"{body.get('apiVersion')}/{body.get('kind')}"
    found = next((name for name, schema in SCHEMAS.items() if kind in schema["kinds"]), None)
    if found is None:
        raise Refused(f"no kind {kind}")
    errors = sorted(validator(found, kind).iter_errors(body), key=lambda error: -len(error.absolute_path))
    for error in errors:
        raise Refused(f"{kind}: {'/'.join(str(part) for part in error.absolute_path)}: {error.message[:300]}")
    head = body.get("metadata", {})
    if body["kind"] != "DeleteOptions" and not (NAME.fullmatch(head.get("name", "")) and len(head["name"]) <= 253):
        raise Refused(f"{kind}: metadata/name: {head.get('name')!r}")
    for key, text in (head.get("labels") or {}).items():
        if not (LABEL_KEY.fullmatch(key) and LABEL.fullmatch(text) and len(text) <= 63):
            raise Refused(f"{kind}: metadata/labels: {key}={text!r}")
    if body["kind"] in ("Job", "JobSet"):
        check_names(body)
    if body["kind"] in ("ClusterQueue", "Cohort"):
        check_quotas(body)


@functools.cache
def validator(file, kind):
    at = SCHEMAS[file]["kinds"][kind]
    schema = {"$ref": f"kubernetes.json#/$defs/{at}"} if isinstance(at, str) else at
    return jsonschema.Draft202012Validator(schema, registry=REGISTRY)


def check_names(body):
    """Pods are named after their Jobs, and their hosts after them: all of it in 63 letters."""
    jobs = [("", body["spec"])]
    if body["kind"] == "JobSet":
        jobs = [(f"-{job['name']}-{job['replicas'] - 1}-0", job["template"]["spec"]) for job in body["spec"]["replicatedJobs"]]
        if len(jobs) > 18 or not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", body["metadata"]["name"]):
            raise Refused("JobSet: its service could not be named, or Kueue would not take so many sets of pods")
    for suffix, spec in jobs:
        if len(f"{body['metadata']['name']}{suffix}-12345") > 63:
            raise Refused("Job: its pods' names would be too long")
        pod = spec["template"]["spec"]
        if pod.get("restartPolicy") not in ("Never", "OnFailure"):
            raise Refused("Job: restartPolicy")
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            if missing := {mount["name"] for mount in container.get("volumeMounts", ())} - volumes:
                raise Refused(f"Job: no volumes {missing}")
            resources = container["resources"]
            if any(resources["limits"].get(name) != amount for name, amount in resources["requests"].items()):
                raise Refused("Job: requests that are not limits")


def check_quotas(body):
    """As Kueue's webhook does (`pkg/webhooks/clusterqueue_webhook.go` and `cohort_webhook.go`)."""
    spec = body["spec"]
    is_alone = not (spec.get("cohortName") or spec.get("parentName"))
    groups = spec.get("resourceGroups", ())
    resources = [name for group in groups for name in group["coveredResources"]]
    flavours = [flavour["name"] for group in groups for flavour in group["flavors"]]
    if len({*resources}) < len(resources) or len({*flavours}) < len(flavours):
        raise Refused(f"{body['kind']}: a resource or flavour twice")
    for group in groups:
        for flavour in group["flavors"]:
            if [one["name"] for one in flavour["resources"]] != group["coveredResources"]:
                raise Refused(f"{body['kind']}: {flavour['name']} must match the names in coveredResources")
            for one in flavour["resources"]:
                limits = [key for key in ("borrowingLimit", "lendingLimit") if key in one]
                if is_alone and limits:
                    raise Refused(f"{body['kind']}: {limits[0]} must be nil where there is nobody to share with")
                if "lendingLimit" in one and quantity(one["lendingLimit"]) > quantity(one["nominalQuota"]):
                    raise Refused(f"{body['kind']}: lendingLimit must be less than or equal to the nominalQuota")
