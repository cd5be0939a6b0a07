# shellcheck shell=bash
# Sourced by tools/packages: what a release publishes, and examples/ci as a runner of GitHub would run it, from a clean
# Debian: by the action, with the packages of this build in place of a download.
check_release() {
  check "packaging/release fills in its files" packaging/release https://example.org/clef https://example.org/clef/releases/v"$version"
  check "the sums of the release" sh -c 'cd build-packages/release && sha256sum --check --strict SHA256SUMS'
  check "the Homebrew formula is Ruby" ruby -c "$folder/release/clef.rb"
  same "and has the sum of the source archive" "$(sha256sum <"$folder/deb/clef_$version.orig.tar.gz" | cut -d ' ' -f 1)" \
    "$(sed -n 's/^  sha256 "\(.*\)"/\1/p' "$folder/release/clef.rb")"
  if [ -f "$folder/release/clef.installer.yaml" ]; then
    check "the winget manifests have the fields of the schema" /usr/bin/python3 packaging/winget/check.py "$folder/release"
  else
    echo "skipped: the winget manifests, because tools/windows has not made its archive"
  fi
}

check_clients() {
  new_chroot || { failed "a clean Debian 12"; return; }
  "${as_root[@]}" mkdir -p "$chroot/tmp/home"
  "${as_root[@]}" cp -r examples/ci packaging/action "$folder/release" "$chroot/tmp"
  if ! /usr/bin/python3 packaging/parts/workflow.py examples/ci/.github/workflows/test.yml packaging/action /tmp/action \
    packages=file:///tmp/release >"$folder/workflow.sh"; then
    failed "the workflow of examples/ci"
    return
  fi
  "${as_root[@]}" cp "$folder/workflow.sh" "$chroot/tmp"
  check "examples/ci runs as on a runner" inside sh -c 'cd /tmp/ci && bash /tmp/workflow.sh'
  tail -n 1 "$folder/check.out"
  check "and a wrong sum is refused" inside sh -c \
    'sed -i "s/^[0-9]/f/; t; s/^[a-f]/0/" /tmp/release/SHA256SUMS &&
    ! CLEF_PACKAGES=file:///tmp/release CLEF_PYTHON=true CLEF_DEVELOPMENT=true /tmp/action/install 2>/tmp/refused &&
    grep "did NOT match" /tmp/refused'
  check "and another system is refused" inside sh -c \
    'sed -i "s/^VERSION_ID=.*/VERSION_ID=13/" /usr/lib/os-release &&
    ! CLEF_PACKAGES=file:///tmp/release CLEF_PYTHON=true CLEF_DEVELOPMENT=true /tmp/action/install 2>/tmp/refused &&
    grep "expected Debian 12" /tmp/refused'
}
