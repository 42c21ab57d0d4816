// Tables sort by the heading that is pressed, and a link opens what it leads to. Without scripts all of it just stands.
function number(cell) {
  const match = cell.textContent.trim().replaceAll("−", "-").replaceAll(",", "").match(/^[<±+[ ]*(-?\d+(\.\d+)?)/);
  return match ? Number(match[1]) : NaN;
}

function compare(first, second) {
  const a = number(first), b = number(second);
  if (!Number.isNaN(a) && !Number.isNaN(b)) return a - b;
  return first.textContent.trim().localeCompare(second.textContent.trim());
}

for (const table of document.querySelectorAll("table")) {
  if (!table.tHead || table.tBodies.length !== 1) continue;
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const direction = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => direction * compare(a.cells[column], b.cells[column])));
    });
  });
}

function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let fold = target?.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  target?.scrollIntoView();
}
addEventListener("hashchange", reveal);
if (location.hash) reveal();
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
