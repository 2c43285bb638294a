// What all charts share: the style sheet's colours, numbers in few digits, asking our own server, growing and repainting.
"use strict";

window.falajDrawing = (() => {
  const SERIES = 10;

  // Colours as the style sheet has them now: light or dark.
  const colour = (board, name) => {
    const probe = document.createElement("span");
    probe.hidden = true;
    probe.style.color = `var(--${name})`;
    board.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const palette = (board) => ({
    ...Object.fromEntries(["ink", "soft", "line", "raised"].map((name) => [name, colour(board, name)])),
    series: Array.from({ length: SERIES }, (_, i) => colour(board, `series-${i}`)),
  });
  const onNewColours = (repaint) => {
    new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  };

  const short = (value) => {
    if (value === null || value === undefined) return "none";
    if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
    return Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : value.toPrecision(4).replace(/\.?0+$/, "");
  };

  const ask = async (path, parameters) => {
    const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { headers: { accept: "application/json" }, credentials: "same-origin" });
    if (answer.status === 401) location.reload();
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 300));
    return answer.json();
  };
  const trouble = (board, words) => {
    const place = board.querySelector("[data-trouble]");
    place.textContent = words;
    place.hidden = !words;
  };

  const resized = new ResizeObserver((entries) => { for (const entry of entries) window.echarts?.getInstanceByDom(entry.target)?.resize(); });
  const enlarges = (board) => {
    board.addEventListener("click", (event) => {
      const button = event.target.closest("[data-enlarge]");
      if (!button) return;
      const large = button.closest("figure").classList.toggle("large");
      button.setAttribute("aria-pressed", String(large));
    });
  };

  return { palette, onNewColours, short, ask, trouble, resized, enlarges };
})();
