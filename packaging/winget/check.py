"""Checks winget manifests against the fields of the schema 1.10.0 (aka.ms/winget-manifest.TYPE.1.10.0.schema.json) that
clef's use: required fields, patterns, lists of allowed values, and that no field is unknown.
usage: check.py FOLDER"""
import re
import sys
from pathlib import Path

import yaml

URL = r"(?i)https?://.+"
ALL = {"PackageIdentifier": r"[^.\s\\/:*?\"<>|]{1,32}(\.[^.\s\\/:*?\"<>|]{1,32}){1,7}",
       "PackageVersion": r"[^\\/:*?\"<>|\s]{1,128}", "ManifestType": r".+", "ManifestVersion": r"1\.10\.0"}
LOCALE = r"[a-zA-Z]{2,3}(-[a-zA-Z]{1,8})*"
# Of each type: its required fields, then its others.
TYPES = {
    "version": ({**ALL, "DefaultLocale": LOCALE}, {}),
    "installer": ({**ALL, "Installers": list},
                  {"Platform": list, "MinimumOSVersion": r"\d+(\.\d+){0,3}", "InstallerType": r"zip|exe|msi|portable",
                   "NestedInstallerType": r"portable|exe|msi", "ArchiveBinariesDependOnPath": r"True|False",
                   "NestedInstallerFiles": list}),
    "defaultLocale": ({**ALL, "PackageLocale": LOCALE, "Publisher": r".{2,256}", "PackageName": r".{2,256}",
                       "License": r".{3,512}", "ShortDescription": r".{3,256}"},
                      {"PackageUrl": URL, "Description": r"(?s).{3,10000}", "Tags": list}),
}
INSTALLER = ({"Architecture": r"x86|x64|arm|arm64|neutral", "InstallerUrl": URL, "InstallerSha256": r"[A-Fa-f0-9]{64}"}, {})
NESTED = ({"RelativeFilePath": r".{1,512}"}, {"PortableCommandAlias": r".{1,40}"})


def check(where, fields, required, optional):
    wrong = [f"{where}: expected the field {name}, got none" for name in required if name not in fields]
    for name, value in fields.items():
        rule = required.get(name, optional.get(name))
        if rule is None:
            wrong.append(f"{where}: the schema has no such field here: {name}")
        elif rule is list:
            if not isinstance(value, list) or not value:
                wrong.append(f"{where}: expected a list as {name}, got {value!r}")
        elif not re.fullmatch(rule, str(value)):
            wrong.append(f"{where}: expected {rule} as {name}, got {value!r}")
    return wrong


def main(folder):
    wrong, types = [], set()
    for path in sorted(Path(folder).glob("clef*.yaml")):
        fields = yaml.safe_load(path.read_text())
        kind = fields.get("ManifestType")
        if kind not in TYPES:
            wrong.append(f"{path.name}: expected ManifestType {', '.join(TYPES)}, got {kind!r}")
            continue
        types.add(kind)
        wrong += check(path.name, fields, *TYPES[kind])
        for installer in fields.get("Installers", []):
            wrong += check(f"{path.name}: Installers", installer, *INSTALLER)
        for nested in fields.get("NestedInstallerFiles", []):
            wrong += check(f"{path.name}: NestedInstallerFiles", nested, *NESTED)
    wrong += [f"expected a manifest of type {kind}, got none" for kind in TYPES if kind not in types]
    print("\n".join(wrong) if wrong else f"{len(types)} manifests")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
