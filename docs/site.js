// A column without texts is not shown; a cell without one is :empty.
const isBlank = (cell) => !cell?.textContent.trim();

// On a phone the cells of a row stand below each other (site.css). Each needs its column's title there.
// Tables of figures stay tables, and scroll by themselves.
const isFigure = ({ textContent: text }) =>
  /^[\d\s.,×%()–-]+$/.test(text) && !/^\s*\d{4}-/.test(text);

for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  for (const title of [...table.querySelectorAll("thead th")].reverse()) {
    const column = [...table.querySelectorAll("tbody tr")].map((row) => row.cells[title.cellIndex]);
    const blank = column.filter(isBlank);
    for (const cell of blank.length === column.length ? [title, ...column] : []) {
      cell?.remove();
    }
    for (const cell of blank) {
      cell?.replaceChildren();
    }
  }
  const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent.trim());
  const cells = [...table.querySelectorAll("tbody td + td")];
  if (titles.length > 2 && cells.filter(isFigure).length < cells.length / 3) {
    table.dataset.stacked = "";
    for (const cell of table.querySelectorAll("tbody td")) {
      cell.dataset.title = titles[cell.cellIndex];
    }
  }
}

// Output that has no columns, indents or drawn lines wraps (site.css).
for (const output of document.querySelectorAll(".md-typeset .language-text code")) {
  if (!/ {2}|[\u2500-\u257f]/.test(output.textContent)) {
    output.closest(".language-text").classList.add("language-output");
  }
}

// Long names break after their dots, underscores and slashes, and not in the middle of a word; in a
// table whose rows are not stacked, those of the first column stay whole. Options such as --topic do not
// break at their hyphens, nor do extras such as '.[spark]' and names in the first column. Headings, and
// their entries beside the page, break inside names, too, and classes between their words.
const UNBROKEN = /((?<![\w-])--?[A-Za-z][\w-]*|'\.\[[\w,-]+\]')/;
const SETTINGS = ":is(.language-properties, .language-promql, .language-json)";
const SEPARATOR = /(?<=\w{2}[._/]|\)\.)(?=[A-Za-z])/;

const texts = (element) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    found.push(walker.currentNode);
  }
  return found;
};

// A number and its unit are on one line.
const UNIT = /(?<=\d) (?=(?:s|ms|µs|[KMG]i?B)\b)| (?=×)/g;

for (const text of [...document.querySelectorAll(".md-typeset :is(p, li, td)")].flatMap(texts)) {
  if (!text.parentElement.closest("pre, code")) {
    text.data = text.data.replace(UNIT, "\u00a0");
  }
}

const unbroken = (text) => {
  const span = document.createElement("span");
  span.style.whiteSpace = "nowrap";
  span.textContent = text;
  return span;
};

const breakable = (text, longest) =>
  text.split(/(\s+)/).flatMap((word) =>
    word.length <= longest
      ? [word]
      : word
          .split(SEPARATOR)
          .flatMap((part, index) => (index ? [document.createElement("wbr"), part] : [part])),
  );

const longestWord = (element) => {
  if (element.closest(SETTINGS)) {
    return 12; // the name and the value are one word there
  }
  if (element.tagName !== "TD") {
    return 40;
  }
  const stacked = getComputedStyle(element).display === "block";
  if (!stacked && element.nextElementSibling) {
    return element.previousElementSibling ? 28 : Infinity;
  }
  return element.clientWidth < 160 ? 12 : 28;
};

const named =
  ".md-typeset :is(table:not([class]) td, :not(pre, td *, td) > code, .language-sh code), " +
  `.md-typeset ${SETTINGS} code`;
const bounds = [...document.querySelectorAll(named)].map((element) => [element, longestWord(element)]);
for (const [element, longest] of bounds) {
  for (const text of texts(element)) {
    if (UNBROKEN.test(text.data) || text.data.length > longest) {
      const parts = text.data.split(UNBROKEN);
      text.replaceWith(
        ...parts.flatMap((part, index) => (index % 2 ? [unbroken(part)] : breakable(part, longest))),
      );
    }
  }
}

for (const name of document.querySelectorAll(".md-typeset td:first-child:not(:last-child) > code")) {
  if (/^[\w-]{1,32}$/.test(name.textContent)) {
    name.style.whiteSpace = "nowrap";
  }
}

const headings = ".md-typeset :is(h1, h2, h3, h4), .md-nav--secondary .md-ellipsis";
for (const heading of document.querySelectorAll(headings)) {
  for (const text of texts(heading)) {
    const isName = text.parentElement.closest(".doc-object-name, .md-nav");
    const words = text.data.split(isName ? /(?<=[a-z])(?=[A-Z])|(?<=[._])(?=[a-z])/ : /(?<=[._])(?=[a-z])/);
    text.replaceWith(
      ...words.flatMap((word, index) => (index ? [document.createElement("wbr"), word] : [word])),
    );
  }
}
