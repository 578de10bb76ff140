// On a phone the cells of a row stand below each other (site.css). Each needs its column's title there.
// Tables of figures stay tables, and scroll by themselves.
const isFigure = (cell) => /^[\d\s.,×%()–-]+$/.test(cell.textContent);

for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const titles = [...table.querySelectorAll("thead th")].map((title) => title.textContent.trim());
  const cells = [...table.querySelectorAll("tbody td + td")];
  if (titles.length > 2 && cells.filter(isFigure).length < cells.length / 3) {
    table.dataset.stacked = "";
    for (const cell of table.querySelectorAll("tbody td")) {
      cell.dataset.title = titles[cell.cellIndex];
    }
  }
}
