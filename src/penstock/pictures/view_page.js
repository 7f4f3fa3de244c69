"use strict";
const articles = Array.from(document.querySelectorAll("article"));
const [previous, next, search, place, empty] = ["previous", "next", "filter", "place", "empty"].map((id) => document.getElementById(id));
const differences = document.getElementById("differences");
let current = 0;

function update() {
  const words = search.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  articles.forEach((article, number) => { article.hidden = number !== current; });
  let shown = 0;
  for (const section of articles[current].querySelectorAll("section")) {
    const named = words.length === 0 || words.some((word) => section.dataset.operator.includes(word));
    section.hidden = !named || (differences !== null && differences.checked && section.dataset.differs === undefined);
    shown += section.hidden ? 0 : 1;
  }
  empty.hidden = shown > 0 || articles[current].querySelector(".error") !== null;
  previous.disabled = current === 0;
  next.disabled = current === articles.length - 1;
  place.value = `sample ${current + 1} of ${articles.length}`;
}

function move(distance) {
  current = Math.min(Math.max(current + distance, 0), articles.length - 1);
  update();
}

previous.addEventListener("click", () => move(-1));
next.addEventListener("click", () => move(1));
search.addEventListener("input", update);
if (differences !== null) differences.addEventListener("change", update);
document.addEventListener("keydown", (event) => {
  if (event.target === search || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "ArrowLeft") move(-1);
  if (event.key === "ArrowRight") move(1);
});
update();
