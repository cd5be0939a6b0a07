# The house's form: .c files as clang-format 14 writes them; everywhere no tabs, no space at a line's end, lines up to 110 columns.
# Headers, kernels and tables are aligned by hand, where that reads better.
. "$(dirname "$0")/../lib.sh"
cd "$CLEF_SOURCE" || exit 1

for folder in cl export graph include/clef lab model ranks runtime text tools train tests; do
  bad=$(find "$folder" -name '*.[ch]' -o -name '*.cl' -o -name '*.def' | sort | xargs -r awk '
    function column(line) { gsub(/[\200-\277]/, "", line); return length(line) } # bytes that continue a character take no column
    /\t/ { print FILENAME ":" FNR ": a tab" }
    / $/ { print FILENAME ":" FNR ": space at the end" }
    column($0) > 110 { print FILENAME ":" FNR ": " column($0) " columns" }')
  empty "$folder: lines" "$bad"
done

formatter=$(command -v clang-format-14 || command -v clang-format || true)
case $([ -n "$formatter" ] && "$formatter" --version) in
  *"version 14."*)
    for folder in export graph lab model ranks runtime text tools train tests examples; do
      bad=
      for file in $(find "$folder" -name '*.c' | sort); do
        [ -f "$file" ] && ! "$formatter" --dry-run -Werror "$file" >/dev/null 2>&1 && bad="$bad $file"
      done
      empty "$folder: clang-format" "$bad"
    done
    ;;
  *) echo "clang-format 14 is not here: the check by it is left out" ;;
esac
finish
