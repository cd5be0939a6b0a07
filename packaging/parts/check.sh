# shellcheck shell=bash
# Sourced by tools/packages: the packages as their users meet them.

# The Debian packages, one after another, in a clean Debian.
check_debs() {
  local before after version_line
  new_chroot || { failed "a clean Debian 12"; return; }
  check "apt-get update" apt_inside update
  files_inside >"$folder/before"
  inside dpkg-query --show --showformat '${Package}\n' >"$folder/packages_before"
  "${as_root[@]}" mkdir -p "$chroot/tmp/debs" "$chroot/tmp/home" "$chroot/tmp/test"
  "${as_root[@]}" cp "$folder"/deb/*.deb "$chroot/tmp/debs"
  "${as_root[@]}" cp -r debian/tests "$chroot/tmp"

  check "apt-get install of the command" inside sh -c \
    'apt-get -y install --no-install-recommends /tmp/debs/clef_*.deb /tmp/debs/clef-data_*.deb /tmp/debs/libclef0_*.deb'
  version_line=$(inside clef --version 2>&1 || true)
  same "it starts without an OpenCL loader" "clef $version" "$version_line"
  check "and says what is missing" inside sh -c 'clef run -n 1 -p a 2>&1 | grep "no OpenCL loader"'
  check "apt-get install with what it recommends" inside sh -c \
    'apt-get -y install /tmp/debs/clef_*.deb /tmp/debs/clef-data_*.deb /tmp/debs/libclef0_*.deb pocl-opencl-icd ocl-icd-libopencl1'
  check "debian/tests/command" inside /tmp/tests/command
  check "the man page is there" inside sh -c 'gzip -dc /usr/share/man/man1/clef-run.1.gz | grep -q "^\.TH"'
  check "apt-get install of the headers and the module" inside sh -c \
    'apt-get -y install --no-install-recommends /tmp/debs/libclef-dev_*.deb /tmp/debs/python3-clef_*.deb cmake gcc libc6-dev make pkg-config'
  check "debian/tests/library" inside /tmp/tests/library
  check "debian/tests/python" inside /tmp/tests/python
  check_sbom_inside
  files_inside >"$folder/installed"
  check "apt-get purge" inside sh -c \
    'apt-get -y purge clef clef-data libclef0 libclef-dev python3-clef && apt-get -y autoremove --purge'
  files_inside >"$folder/after_ours"
  same "purging leaves no file of clef" "" "$(LC_ALL=C comm -13 "$folder/before" "$folder/after_ours" | grep -i clef || true)"
  inside dpkg-query --show --showformat '${Package}\n' | LC_ALL=C sort | LC_ALL=C comm -23 - <(LC_ALL=C sort "$folder/packages_before") >"$folder/added"
  # shellcheck disable=SC2046
  [ ! -s "$folder/added" ] || check "apt-get purge of what else was installed" apt_inside purge $(cat "$folder/added")
  files_inside >"$folder/after"
  same "then all files are those from before" "" "$(diff "$folder/before" "$folder/after" || true)"
}

# The sums in the SBOM are those of the installed files.
check_sbom_inside() {
  local sums
  sums=$("${as_root[@]}" python3 - "$chroot" <<'P'
import hashlib, json, pathlib, sys
root = pathlib.Path(sys.argv[1])
sbom = json.loads((root / "usr/share/doc/clef/clef.spdx.json").read_text())
for file in sbom["files"]:
    got = hashlib.sha256((root / "usr" / file["fileName"]).read_bytes()).hexdigest()
    expected = [c["checksumValue"] for c in file["checksums"] if c["algorithm"] == "SHA256"]
    print(file["fileName"].split("/")[-1], "as installed" if [got] == expected else f"expected {expected}, got {got}")
P
  ) || true
  same "the SBOM has the sums of the installed files" \
    "clef as installed
libclef.so.$(echo "$version" | sed 's/^[0-9]*/0/') as installed
libclef.a as installed
model.safetensors as installed" "$sums"
}

# The SBOM against the standard, by the reference implementation from PyPI.
check_sbom() {
  local venv=$folder/spdx
  if ! [ -x "$venv/bin/pyspdxtools" ]; then
    /usr/bin/python3 -m venv "$venv" && "$venv/bin/pip" install --quiet spdx-tools==0.8.5 >>"$log" 2>&1 || true
  fi
  if [ -x "$venv/bin/pyspdxtools" ]; then
    "${as_root[@]}" cat "$1" >"$folder/clef.spdx.json"
    check "the SBOM is valid SPDX 2.3" "$venv/bin/pyspdxtools" --infile "$folder/clef.spdx.json"
  else
    failed "the SBOM is valid SPDX 2.3: spdx-tools cannot be installed"
  fi
}

# The archive, unpacked somewhere, and cpack's Debian package.
check_tar() {
  local at=/tmp/clef-archive
  new_chroot || { failed "a clean Debian 12"; return; }
  check "apt-get update for the archive" apt_inside update
  "${as_root[@]}" mkdir -p "$chroot$at" "$chroot/tmp/home" "$chroot/tmp/test"
  "${as_root[@]}" cp "$folder"/tar/*.deb "$chroot/tmp"
  check "apt-get install of cpack's package" inside sh -c 'apt-get -y install --no-install-recommends /tmp/clef_*.deb pocl-opencl-icd ocl-icd-libopencl1'
  "${as_root[@]}" cp debian/tests/command "$chroot/tmp/command"
  check "its command runs" inside /tmp/command
  check "dpkg removes the package, not what it needs" inside dpkg --purge clef
  same "and its files" "" "$("${as_root[@]}" find "$chroot/usr" -iname '*clef*')"
  check "the archive unpacks" "${as_root[@]}" tar --extract --gzip --file "$(echo "$folder"/tar/*.tar.gz)" --directory "$chroot$at"
  check "its command runs where it was unpacked" inside sh -c "PATH=\$(echo $at/*/bin):\$PATH /tmp/command"
  remove_chroot
}

check_packages() {
  if make_deb "$folder/deb"; then passed "dpkg-buildpackage"; else failed "dpkg-buildpackage"; return; fi
  check "lintian has no error and no warning" check_lintian "$folder/deb"
  check_debs
  if make_tar "$folder/tar"; then passed "cpack"; else failed "cpack"; return; fi
  check_sbom "$folder/work/clef-$version/debian/clef/usr/share/doc/clef/clef.spdx.json"
  check_release
  check_tar
  check_clients
  remove_chroot
}
