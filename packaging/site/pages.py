#!/usr/bin/env python3
"""Writes what MkDocs makes the site of: the pages of docs/, the READMEs and files that they lead to, a gallery, and a reference from
the command's help, the server's tables, the table of formats and the C headers.
usage: packaging/site/pages.py CLEF FOLDER      CLEF is the command; FOLDER gets mkdocs.yml and pages/"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!\\)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")
RENAMED = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
LANGUAGES = {".h": "c", ".c": "c", ".cl": "c", ".def": "c", ".py": "python", ".ipynb": "json"}


def place(path):
    """Where a file of the tree is on the site."""
    name = path.as_posix()
    if name in RENAMED:
        return RENAMED[name]
    if name.startswith("docs/"):
        return name[len("docs/"):]
    if path.suffix == ".md" or (ROOT / path).is_dir():
        return name if path.suffix == ".md" else f"source/{name}/index.md"
    return f"source/{name}.md"


class Site:
    def __init__(self, clef, folder):
        self.clef, self.folder, self.pages = clef, folder, folder / "pages"
        self.waiting, self.seen = [], set()
        self.pictures = {}

    def write(self, name, text):
        path = self.pages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ask(self, *arguments):
        return subprocess.run([self.clef, *arguments], check=True, capture_output=True, text=True).stdout

    def want(self, path):
        if path not in self.seen:
            self.seen.add(path)
            self.waiting.append(path)

    # ---- pages of the tree ----

    def with_links(self, path, text):
        """The text of a page, with links that lead to where files are on the site."""
        here = Path(place(path)).parent

        def moved(match):
            link, anchor = match.group(1), match.group(2) or ""
            target = Path(os.path.normpath(path.parent / link))
            if not (ROOT / target).exists():
                sys.exit(f"site: {path}: {link}: no such file")
            self.want(target)
            return f"]({os.path.relpath(place(target), here)}{anchor})"

        # Code has no links.
        parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", text, flags=re.M | re.S)
        return "".join(part if i % 2 else LINK.sub(moved, part) for i, part in enumerate(parts))

    def add(self, path):
        source, name = ROOT / path, place(path)
        if source.is_dir():
            files = sorted(p for p in source.iterdir() if p.is_file())
            for p in files:
                self.want(p.relative_to(ROOT))
            rows = [f"- [{p.name}]({os.path.relpath(place(p.relative_to(ROOT)), Path(name).parent)})" for p in files]
            self.write(name, f"# {path}\n\n" + "\n".join(rows) + "\n")
        elif path.suffix == ".md":
            text = re.sub(r"^<!-- .* -->\n", "", source.read_text(), flags=re.M)
            for alt, link in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text):
                self.pictures.setdefault(Path(os.path.normpath(path.parent / link)), (alt, path))
            self.write(name, self.with_links(path, text))
        elif path.suffix in (".png", ".svg", ".jpg"):
            target = self.pages / (name[len("source/"):-len(".md")] if name.startswith("source/") else name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
        else:
            self.write(name, f"# {path}\n\n```{LANGUAGES.get(path.suffix, 'text')}\n{source.read_text()}```\n")

    def add_all(self):
        for path in [Path("README.md"), Path("CHANGELOG.md"), *sorted(p.relative_to(ROOT) for p in (ROOT / "docs").glob("*.md"))]:
            self.want(path)
        while self.waiting:
            self.add(self.waiting.pop())

    def gallery(self):
        shown = [f'<figure markdown="1">\n[![{alt}]({place(picture)})]({place(picture)})\n<figcaption markdown="1">{alt}, from '
                 f"[{place(page)[:-3]}]({place(page)})</figcaption>\n</figure>" for picture, (alt, page) in sorted(self.pictures.items())]
        self.write("gallery.md", "# Gallery\n\nWhat clef draws. `scripts/pictures` makes these pictures.\n\n"
                   '<div class="gallery" markdown="1">\n' + "\n".join(shown) + "\n</div>\n")

    # ---- the reference ----

    def commands(self):
        names = re.findall(r"^  ([a-z]+) ", self.ask("help"), re.M)
        names = [name for name in names if name != "help"]
        for name in names:
            self.write(f"reference/commands/{name}.md", f"# clef {name}\n\n```text\n{self.ask(name, '--help-all')}```\n")
        return names

    def tables(self):
        rows = [re.split(r" {2,}", line, maxsplit=1) for line in self.ask("ops").splitlines()]
        rows = [(name, formula.replace("|", "\\|")) for name, formula in rows]
        self.write("reference/ops.md", "# Ops\n\n[Adding an op](../adding-an-op.md) says how they are defined; `[..]` are indices.\n\n"
                   "| op | formula |\n|---|---|\n" + "".join(f"| `{name}` | `{formula}` |\n" for name, formula in rows))
        formats = re.findall(r"^#define FORMAT_\d+\(X\) +X\(\d+, *(\w+), *(\w+), *(\d+), *(\d+), *(-?\d+), *(\d+),",
                             (ROOT / "cl/formats.def").read_text(), re.M)
        self.write("reference/formats.md", "# Number formats\n\n[Kernels and weight formats](../kernels.md) explains blocks and panels.\n\n"
                   "| format | in graphs | elements of a block | bytes of a block | bits each | number in GGUF |\n|---|---|---|---|---|---|\n" +
                   "".join(f"| {NAME} | `{name}` | {elems} | {size} | {8 * int(size) / int(elems):.4g} | {'–' if ggml == '-1' else ggml} |\n"
                           for NAME, name, elems, size, ggml, _ in formats))
        titles = {"endpoints": "Paths", "fields": "Fields of requests", "errors": "Errors", "metrics": "Metrics"}
        self.write("reference/server.md", "# The server\n\n[Serving](../serving.md) explains them.\n" + "".join(
            f"\n## {title}\n\n{self.ask('serve', '--list', name)}" for name, title in titles.items()))
        return len(rows), len(formats)

    def headers(self):
        """A page for each header: its text, cut at blank lines between declarations, under the names that are declared there."""
        names = sorted(p.name for p in (ROOT / "include/clef").glob("*.h"))
        for name in names:
            text = (ROOT / "include/clef" / name).read_text()
            about = re.match(r"/\*+(.*?)\*/", text, re.S).group(1)
            about = re.sub(r"^ \*", "", about, flags=re.M)
            page = [f"# clef/{name}\n\n```text\n{about.strip()}\n```\n"]
            for block in re.split(r"\n\n(?=/\*|CLEF_API|typedef|enum|struct|#define)", text):
                found = re.findall(r"^CLEF_API[^(]*?\b(clef_\w+)\(|^(?:typedef )?(?:struct|enum|union) (clef_\w+) *\{", block, re.M)
                declared = [function or kind for function, kind in found]
                if declared:
                    body = re.sub(r"^#(ifdef __cplusplus|endif).*\n?|^extern \"C\" \{\n|^\}$", "", block, flags=re.M).strip()
                    page.append(f"## {', '.join(f'`{d}`' for d in declared[:4])}{' …' if len(declared) > 4 else ''}\n\n```c\n{body}\n```\n")
            self.write(f"reference/c/{name[:-2]}.md", "\n".join(page))
        return [name[:-2] for name in names]


def main():
    site = Site(str(Path(sys.argv[1]).resolve()), Path(sys.argv[2]))
    shutil.rmtree(site.pages, ignore_errors=True)
    site.add_all()
    site.gallery()
    commands, headers = site.commands(), site.headers()
    n_ops, n_formats = site.tables()
    site.write("reference/index.md", "# Reference\n\nThese pages are made from the tables that clef itself uses.\n\n"
               f"- [{n_ops} ops](ops.md), [{n_formats} number formats](formats.md), [the server's paths, fields, errors and metrics](server.md)\n"
               "- commands: " + ", ".join(f"[{c}](commands/{c}.md)" for c in commands) + "\n"
               "- the C API: " + ", ".join(f"[{h}.h](c/{h}.md)" for h in headers) + "\n"
               "- [environment variables](../environment.md), [the text form of graphs](../graph-format.md)\n")
    for name in ("site.css", "site.js"):
        shutil.copy(ROOT / "packaging/site" / name, site.pages)
    nav = (ROOT / "packaging/site/mkdocs.yml").read_text()
    entry = "          - {0}: {1}\n".format
    nav = nav.replace("COMMANDS\n", "      - Ops: reference/ops.md\n      - Number formats: reference/formats.md\n      - The server: reference/server.md\n"
                      "      - Commands:\n" + "".join(entry(c, f"reference/commands/{c}.md") for c in commands))
    nav = nav.replace("HEADERS\n", "      - C API:\n" + "".join(entry(f"{h}.h", f"reference/c/{h}.md") for h in headers))
    others = sorted(p.relative_to(site.pages).as_posix() for p in site.pages.rglob("*.md"))
    others = [p for p in others if p not in nav]
    nav = nav.replace("OTHERS\n", "      - Files of the tree:\n" + "".join(
        entry(p[:-3].replace("source/", ""), p) for p in others))
    (site.folder / "mkdocs.yml").write_text(nav)
    print(f"{len(list(site.pages.rglob('*.md')))} pages, {len(site.pictures)} pictures, {n_ops} ops, {n_formats} formats")


main()
