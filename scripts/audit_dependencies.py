"""Hold what is installed against the published vulnerabilities: found ones fail, and what could not be looked up is said.

Where the vulnerability service cannot be reached (an air-gapped site, a bare package mirror), only consistency is checked; the
line "not audited" says so, because silence would read as a clean bill.
"""

import json
import subprocess
import sys
from typing import Any


def consistent() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "check", "--disable-pip-version-check"], check=False).returncode == 0


def report() -> tuple[list[dict[str, Any]], str]:
    """What pip-audit says of each package, or why it said nothing."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--skip-editable",
        "--timeout",
        "15",
    ]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
        return json.loads(run.stdout)["dependencies"], ""
    except subprocess.TimeoutExpired:
        return [], "the vulnerability service does not answer"
    except (ValueError, KeyError):
        reason = run.stderr.strip().splitlines()
        return [], reason[-1] if reason else "pip-audit said nothing"


def main() -> int:
    packages, failure = report()
    if failure and not any(
        word in failure.lower() for word in ("connect", "service", "timed out", "unreachable", "resolve", "proxy")
    ):
        print(f"pip-audit failed: {failure}", file=sys.stderr)
        return 1
    skipped = [package["name"] for package in packages if package.get("skip_reason") and package["name"] != "falaj"]
    audited = [package for package in packages if not package.get("skip_reason")]
    vulnerable = [package for package in audited if package["vulns"]]
    for package in vulnerable:
        for found in package["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version yet"
            print(f"{package['name']} {package['version']}: {found['id']}, mended in {fixed}", file=sys.stderr)
    print(f"dependency audit: {len(audited)} packages looked up, {len(vulnerable)} with known vulnerabilities")
    if failure:
        print(f"not audited: {failure}")
    elif skipped:
        print(f"not audited: {len(skipped)} packages, which the vulnerability service could not be asked about from here")
    return 0 if consistent() and not vulnerable else 1


if __name__ == "__main__":
    sys.exit(main())
