"""Files that make a CI system run the gates: on a change of the code, on a change of the data, and every night."""

from typing import Final

GITHUB: Final = """\
# Gates of a model, on every change of the code, every night, and whenever data changed: a `repository_dispatch` of the type
# falaj-data starts the same. The addresses and the token are secrets and variables of the repository.
name: gates
on:
  push:
  pull_request:
  schedule:
    - cron: "17 3 * * *"
  repository_dispatch:
    types: [falaj-data]
  workflow_dispatch:
    inputs:
      version:
        description: What to look at, such as @MODEL@:3
        default: "@MODEL@"
jobs:
  gates:
    runs-on: ubuntu-latest
    env:
      FALAJ_URL: ${{ vars.FALAJ_URL }}
      FALAJ_TOKEN: ${{ secrets.FALAJ_TOKEN }}
      FALAJ_PROJECT: "@PROJECT@"
      VERSION: ${{ github.event.inputs.version || '@MODEL@' }}
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - run: pip install falaj
      - run: falaj ci "$VERSION" --junit gates.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: gates
          path: gates.xml
"""
GITLAB: Final = """\
# Gates of a model, on every change of the code, by a schedule, and whenever data changed: a pipeline trigger starts the same.
# FALAJ_URL and FALAJ_TOKEN are variables of the project; the token is a masked one.
gates:
  image: python:3.12
  variables:
    FALAJ_PROJECT: "@PROJECT@"
    VERSION: "@MODEL@"
  rules:
    - if: $CI_PIPELINE_SOURCE == "push"
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_PIPELINE_SOURCE == "schedule"
    - if: $CI_PIPELINE_SOURCE == "trigger"
    - if: $CI_PIPELINE_SOURCE == "web"
  script:
    - pip install falaj
    - falaj ci "$VERSION" --junit gates.xml
  artifacts:
    when: always
    reports:
      junit: gates.xml
"""
PLACES: Final = {"github": ".github/workflows/falaj.yml", "gitlab": ".gitlab-ci.yml"}


def written(system: str, model: str, project: str) -> str:
    text = GITHUB if system == "github" else GITLAB
    return text.replace("@MODEL@", model).replace("@PROJECT@", project)
