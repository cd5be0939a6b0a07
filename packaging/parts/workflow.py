"""Writes the steps of a GitHub workflow's job as one shell script, to run them without GitHub.
usage: workflow.py WORKFLOW ACTION-FOLDER PLACE [INPUT=VALUE...]

Steps with `run` are taken as they are. A step that uses clef's action becomes the action's steps, read from
ACTION-FOLDER, as if the action were in PLACE; INPUT=VALUE replaces its inputs. Steps find PLACE in
$GITHUB_ACTION_PATH alone: github.action_path is refused, because in a container it is a path of the host. Other
actions (checkout, cache) are left out and named."""
import re
import shlex
import sys
from pathlib import Path

import yaml


def substitute(text, values):
    def value(match):
        name = match.group(1).strip()
        if name not in values:
            sys.exit(f"workflow: expected one of {', '.join(sorted(values))}, got ${{{{ {name} }}}}")
        return values[name]
    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


def script(step, values, environment=None):
    variables = {**(environment or {}), **step.get("env", {})}
    exports = "".join(f"export {name}={shlex.quote(substitute(str(text), values))}\n" for name, text in variables.items())
    run = exports + substitute(step["run"], values)
    return (f"echo {shlex.quote('## ' + step.get('name', step['run']).splitlines()[0])}\n"
            f"bash -eo pipefail -c {shlex.quote(run)}\n"
            'set -a; . "$GITHUB_ENV"; set +a\n')


def main(workflow, folder, place, *pairs):
    action = yaml.safe_load(Path(folder, "action.yml").read_text())
    job = yaml.safe_load(Path(workflow).read_text())["jobs"]["test"]
    print("set -euo pipefail\nexport GITHUB_ENV=$(mktemp) GITHUB_OUTPUT=$(mktemp)")
    used = False
    for step in job["steps"]:
        if "run" in step:
            print(script(step, {}))
        elif "clef/packaging/action@" in step["uses"]:
            used = True
            inputs = {name: str(entry.get("default", "")) for name, entry in action["inputs"].items()}
            given = {**step.get("with", {}), **dict(pair.split("=", 1) for pair in pairs)}
            unknown = given.keys() - inputs.keys()
            if unknown:
                sys.exit(f"workflow: the action has no input {', '.join(sorted(unknown))}")
            inputs.update({name: str(value) for name, value in given.items()})
            values = {"github.server_url": "https://github.com", "github.action_repository": "OWNER/clef", "github.action_ref": "v0",
                      **{f"inputs.{name}": value for name, value in inputs.items()}}
            for inner in action["runs"]["steps"]:
                print(script(inner, values, {"GITHUB_ACTION_PATH": place}))
        else:
            print(f"echo {shlex.quote('## left out: ' + step['uses'])}")
    if not used:
        sys.exit(f"workflow: expected a step of {workflow} that uses clef's action, got none")


if __name__ == "__main__":
    main(*sys.argv[1:])
