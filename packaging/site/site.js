// What the theme leaves out for the keyboard and for screen readers: a name for the search, a stop at what scrolls.
const search = document.querySelector(".md-search");
if (search) search.setAttribute("aria-label", "Search");
function stops() {
  for (const e of document.querySelectorAll("pre > code, .md-typeset table, .md-typeset__scrollwrap"))
    if (e.scrollWidth > e.clientWidth) e.tabIndex = 0;
    else e.removeAttribute("tabindex");
}
addEventListener("load", stops);
addEventListener("resize", stops);
