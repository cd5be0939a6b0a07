# tools/setup as root without sudo, as a user with sudo, and as a user without: which commands it runs. The package tools are stand-ins.
. "$(dirname "$0")/../lib.sh"
. /etc/os-release 2>/dev/null
case " ${ID:-} ${ID_LIKE:-} " in *" debian "* | *" ubuntu "*) ;; *) skip "tools/setup installs on Debian and Ubuntu alone" ;; esac

bin=$tmp/bin
mkdir "$bin"
for tool in bash dirname env mktemp rm tail head cat printf; do ln -s "$(command -v $tool)" "$bin/$tool"; done
stand_in() { printf '#!/bin/bash\n%s\n' "$2" >"$bin/$1" && chmod +x "$bin/$1"; }
stand_in dpkg-query 'case " $MISSING " in *" ${@: -1} "*) exit 1 ;; esac; echo "ii "'
stand_in apt-get 'echo "apt-get $*" >>"$CALLS"; [ "$1" = update ] && : >"$LISTS"; [ -e "$LISTS" ]'
stand_in id 'echo "$USER_ID"'
export CALLS=$tmp/calls LISTS=$tmp/lists MISSING="ninja-build libjansson-dev" USER_ID=0

# run_setup: its exit code and the commands, with spaces in place of line ends.
run_setup() {
  rm -f "$CALLS"
  : >"$CALLS"
  PATH=$bin bash "$CLEF_SOURCE/tools/setup" demo >"$tmp/out" 2>"$tmp/err"
  echo "$?: $(tr '\n' ' ' <"$CALLS")"
}
simulate="apt-get install -y --no-install-recommends --simulate ninja-build libjansson-dev"
install="apt-get install -y --no-install-recommends ninja-build libjansson-dev"

: >"$LISTS"
same "root" "0: $simulate $install " "$(run_setup)"
empty "nothing on stdout" "$(cat "$tmp/out")"
rm "$LISTS"
same "root without package lists" "0: $simulate apt-get update $install " "$(run_setup)"
same "nothing is missing" "0: " "$(MISSING='' run_setup)"
USER_ID=1000
same "a user without sudo" "1: " "$(run_setup)"
if grep -q "apt-get install --no-install-recommends $MISSING" "$tmp/err"; then ok "learns what to install"; else fail "learns what to install: $(cat "$tmp/err")"; fi
stand_in sudo 'echo sudo >>"$CALLS"; exec "$@"'
same "a user with sudo" "0: sudo $simulate sudo $install " "$(run_setup)"
same "an unknown profile" 2 "$(PATH=$bin bash "$CLEF_SOURCE/tools/setup" nonsense >/dev/null 2>&1; echo $?)"
finish
