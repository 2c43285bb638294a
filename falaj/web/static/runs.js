// The runs table: which runs are chosen for comparison, across pages and orders; finding a column; a light table when it is long.
"use strict";

(() => {
  const table = document.getElementById("runs");
  if (!table) return;
  const chosen = new Set();
  const MOST = 20;

  const boxes = () => table.querySelectorAll("input[name=runs]");
  const form = () => document.getElementById("compare");
  const tell = () => {
    const bar = form();
    if (!bar) return;
    bar.querySelector("[data-chosen]").textContent = chosen.size ? `${chosen.size} chosen` : "Choose runs to compare";
    bar.querySelector(".main-action").disabled = chosen.size < 2 || chosen.size > MOST;
    bar.querySelector("[data-clear]").hidden = !chosen.size;
    bar.querySelector("[data-too-many]").hidden = chosen.size <= MOST;
  };
  const mark = () => {
    for (const box of boxes()) {
      box.checked = chosen.has(box.value);
      box.closest("tr").toggleAttribute("data-chosen", box.checked);
    }
    tell();
  };

  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!box.matches?.("#runs input[name=runs]")) return;
    if (box.checked) chosen.add(box.value);
    else chosen.delete(box.value);
    box.closest("tr").toggleAttribute("data-chosen", box.checked);
    tell();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest("[data-clear]")) return;
    chosen.clear();
    mark();
  });
  // Runs that were chosen and have left the table with another filter or order travel too.
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "compare") return;
    event.preventDefault();
    location.assign(`${event.target.getAttribute("action")}?runs=${[...chosen].join(",")}`);
  });

  // Columns are found by typing.
  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!field.matches?.("[data-find-columns]")) return;
    for (const label of field.closest("details").querySelectorAll(".choice")) {
      label.hidden = !label.textContent.toLowerCase().includes(field.value.trim().toLowerCase());
    }
  });

  // Bodies of a hundred rows that are far away give up their boxes and keep their height.
  const far = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const away = !isIntersecting && target.rows.length > 1;
      if (away === target.classList.contains("far")) continue;
      if (away) target.style.setProperty("--height", `${target.offsetHeight}px`);
      target.classList.toggle("far", away);
    }
  }, { rootMargin: "1500px 0px" });
  const watch = () => { for (const body of table.querySelectorAll("tbody:not([data-watched])")) { body.dataset.watched = ""; far.observe(body); } };

  document.addEventListener("htmx:afterSettle", () => { mark(); watch(); });
  for (const box of boxes()) if (box.checked) chosen.add(box.value);
  mark();
  watch();
})();
