# shellcheck shell=bash
# Sourced by tests that look at pages in a headless Chromium, after lib.sh. $browser is empty where none is installed.
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || browser=
axe=$(oracle axe) || axe=

# opened PAGE [FLAG...]: what a page becomes.
opened() {
  HOME=$tmp timeout 600 "$browser" --headless=new --no-sandbox --disable-gpu --user-data-dir="$tmp/chromium" --enable-logging=stderr \
    --window-size=1400,900 --virtual-time-budget=3000 --dump-dom "${@:2}" "file://$1" 2>"$tmp/console"
}

# usable NAME PAGE [SCRIPT]: axe-core finds nothing serious or critical in the page as the script leaves it, and nothing is wider than the
# page, at 1,400 and 380 pixels, in light and dark.
usable() {
  [ -n "$axe" ] || { echo "skipped: $1 by axe-core, which \`tools/oracles axe\` gets"; return 0; }
  local page=${2%.html}.axe.html scheme
  {
    sed 's|</body>.*||; s|</html>.*||' "$2"
    echo "<script>"
    cat "$axe"
    cat <<AXE
</script>
<script>
addEventListener("load", async () => {
  ${3:-}
  const found = (await axe.run(document, { resultTypes: ["violations"], preload: false })).violations;
  const told = found.filter(v => /serious|critical/.test(v.impact)).map(v => v.id + ": " + v.nodes[0].html.slice(0, 120));
  if (document.documentElement.scrollWidth > innerWidth) told.push("wider than " + innerWidth);
  parent.postMessage(innerWidth + ": " + (told.join("; ") || "nothing"), "*");
});
</script></body></html>
AXE
  } >"$page"
  cat >"$tmp/widths.html" <<AXE
<!doctype html><html><body><pre id="said"></pre><script>addEventListener("message", e => { said.textContent += e.data + "\n"; });</script>
<iframe src="file://$page" style="width: 1400px; height: 900px; border: 0"></iframe>
<iframe src="file://$page" style="width: 380px; height: 760px; border: 0"></iframe></body></html>
AXE
  for scheme in 1 0; do # Chromium's numbers of light and dark
    same "$1: axe-core, scheme $scheme" "1400: nothing 380: nothing" "$(opened "$tmp/widths.html" --blink-settings=preferredColorScheme=$scheme |
      sed -n '/<pre id="said">/,/<\/pre>/p' | sed 's/.*<pre id="said">//; s|</pre>.*||' | sort -rn | sed '/^$/d' | paste -sd' ')"
  done
  rm "$page"
}
