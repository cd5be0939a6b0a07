#!/usr/bin/env python3
"""Prints the SBOM of a release as SPDX 2.3: its files with their sums, and the libraries that they use.
usage: packaging/sbom.py VERSION FOLDER      $SOURCE_DATE_EPOCH is the time of the document

The libraries are the lines of cmake/sbom.cmake; their versions are those of pkg-config. What tools/dependencies.sh builds for wheels
and for Windows has the version and the sum of its source."""
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def installed_version(module):
    try:
        found = subprocess.run(["pkg-config", "--modversion", module], capture_output=True, text=True)
    except OSError:
        return "NOASSERTION"
    return found.stdout.strip() if found.returncode == 0 else "NOASSERTION"


def package(name, version, licence, **more):
    return {"SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name), "name": name, "versionInfo": version,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": "NOASSERTION",
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", **more}


def libraries():
    text = (ROOT / "cmake/sbom.cmake").read_text()
    rows = re.findall(r'^clef_sbom_library\((\S+) (\S+) (?:"([^"]+)"|(\S+)) \S+\)', text, re.M)
    return [package(name, installed_version(module), quoted or plain) for module, name, quoted, plain in rows]


def static_libraries(licences):
    text = (ROOT / "tools/dependencies.sh").read_text()
    for name, path, version, digest in re.findall(r"^ *fetch (\S+) (\S+?_([0-9][^_/]*?)\.orig\.tar\.\w+) ([0-9a-f]{64})", text, re.M):
        known = licences.get(name.replace("_", "-"), licences.get(name, "NOASSERTION"))
        yield package(f"{name}-{version}-static", version, known, packageFileName=path.split("/")[-1],
                      checksums=[{"algorithm": "SHA256", "checksumValue": digest}])


def files(folder):
    for path in sorted(folder.iterdir()):
        if path.name not in ("SHA256SUMS", "NOTES.md") and path.suffix != ".json":
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            yield package(path.name, sys.argv[1], "Apache-2.0", packageFileName=path.name,
                          checksums=[{"algorithm": "SHA256", "checksumValue": digest}])


def main():
    if len(sys.argv) != 3:
        sys.exit(f"sbom: expected a version and a folder, got {len(sys.argv) - 1} arguments")
    made = list(files(Path(sys.argv[2])))
    shared = libraries()
    static = list(static_libraries({p["name"]: p["licenseDeclared"] for p in shared}))
    if not made or not shared:
        sys.exit(f"sbom: expected files and libraries, got {len(made)} and {len(shared)}")
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", p["SPDXID"]) for p in made]
    for p in made:
        of = static if p["name"].endswith((".whl", ".zip")) else shared
        relations += [(p["SPDXID"], "DEPENDS_ON", library["SPDXID"]) for library in of]
    packages = made + shared + static
    identity = hashlib.sha256(json.dumps(packages).encode()).hexdigest()
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"clef-{sys.argv[1]}",
        "documentNamespace": f"https://spdx.org/spdxdocs/clef-{sys.argv[1]}-{identity}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: clef-packaging-sbom"]},
        "packages": packages,
        "relationships": [{"spdxElementId": a, "relationshipType": how, "relatedSpdxElement": b} for a, how, b in relations],
    }
    print(json.dumps(document, indent=1))


main()
