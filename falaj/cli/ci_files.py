"""Files that make a CI system train and run gates: when the code changed, when the data changed, and every night.

They install what a variable of the CI system says: whoever holds the name `falaj` in a public index would run with the token.
"""

from typing import Final

_WHAT: Final = """\
# Gates of @MODEL@. When the main branch or the data changed, pipeline.py trains, and they are of what came out. Otherwise,
# and where there is no pipeline.py, they are of the champion; until a version is promoted there is none, and that fails."""
# Of the steps of a run, the version that `train` made.
_MADE: Final = (
    """python -c 'import json; made = {one["name"]: one["result"] for one in json.load(open("run.json"))["steps"]}["train"]; """
    """print(made["model"], made["version"], sep=":")'"""
)
_INSTALLED: Final = (
    """: "${FALAJ_PACKAGE:?is not set. Make it a variable of this CI system: the address or path of the wheel of Falaj, or a """
    """version with an index of yours, such as falaj==1.2.3 --index-url ADDRESS}\""""
)
GITHUB: Final = """\
@WHAT@
# FALAJ_URL is a variable of the repository, as is FALAJ_PACKAGE, which pip installs. FALAJ_TOKEN, of a service account, is a
# secret, and only steps that ask the platform see it. That data changed is told by a
# `repository_dispatch` of the type falaj-data.
name: gates
on:
  push:
    branches: [main]
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
      FALAJ_PROJECT: "@PROJECT@"
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - env:
          FALAJ_PACKAGE: ${{ vars.FALAJ_PACKAGE }}
        run: |
          @INSTALLED@
          pip install $FALAJ_PACKAGE
      - id: train
        if: (github.event_name == 'push' || github.event_name == 'repository_dispatch') && hashFiles('pipeline.py') != ''
        env:
          FALAJ_TOKEN: ${{ secrets.FALAJ_TOKEN }}
        run: |
          falaj pipeline run pipeline.py --only evaluate --json > run.json
          VERSION=$(@MADE@)
          echo "version=$VERSION" >> "$GITHUB_OUTPUT"
      - id: gates
        env:
          FALAJ_TOKEN: ${{ secrets.FALAJ_TOKEN }}
          VERSION: ${{ steps.train.outputs.version || github.event.inputs.version || '@MODEL@' }}
        run: falaj ci "$VERSION" --junit gates.xml
      - uses: actions/upload-artifact@v4
        if: always()
        with:
          name: gates
          path: gates.xml
"""
GITLAB: Final = """\
@WHAT@
# FALAJ_URL, FALAJ_PACKAGE, which pip installs, and FALAJ_TOKEN, of a service account, are variables of the project. Have the
# token masked and protected: all of the job sees it here, so only protected branches should. That data changed is told
# by a pipeline trigger.
gates:
  image: python:3.12
  variables:
    FALAJ_PROJECT: "@PROJECT@"
    VERSION: "@MODEL@"
  rules:
    - if: $CI_PIPELINE_SOURCE == "push" && $CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH
    - if: $CI_PIPELINE_SOURCE == "merge_request_event"
    - if: $CI_PIPELINE_SOURCE == "schedule"
    - if: $CI_PIPELINE_SOURCE == "trigger"
    - if: $CI_PIPELINE_SOURCE == "web"
  before_script:
    - |
      @INSTALLED@
      env -u FALAJ_TOKEN pip install $FALAJ_PACKAGE
  script:
    - |
      if [ -e pipeline.py ] && { [ "$CI_PIPELINE_SOURCE" = push ] || [ "$CI_PIPELINE_SOURCE" = trigger ]; }; then
        falaj pipeline run pipeline.py --only evaluate --json > run.json
        VERSION=$(@MADE@)
      fi
    - falaj ci "$VERSION" --junit gates.xml
  artifacts:
    when: always
    reports:
      junit: gates.xml
"""
PIPELINE: Final = "pipeline.py"  # as `falaj init` calls it
PLACES: Final = {"github": ".github/workflows/falaj-gates.yml", "gitlab": ".gitlab-ci.yml"}


def written(system: str, model: str, project: str) -> str:
    text = GITHUB if system == "github" else GITLAB
    given = {"WHAT": _WHAT, "MADE": _MADE, "MODEL": model, "PROJECT": project, "INSTALLED": _INSTALLED}
    for name, part in given.items():
        text = text.replace(f"@{name}@", part)
    return text
