// Run in the page: everything that is wrong with it for a person with a phone, a keyboard, a screen reader or weak eyes.
const faults = [];
const say = (what, it) => faults.push(`${what}: ${it.outerHTML.slice(0, 160)}`);
for (const details of document.querySelectorAll("details")) details.open = true;
const visible = (it) => it.checkVisibility({ visibilityProperty: true, opacityProperty: true });

// Structure
if (document.querySelectorAll("h1").length !== 1) faults.push("not exactly one h1");
if (document.querySelectorAll("main").length !== 1) faults.push("not exactly one main");
if (document.querySelector(".shell")) {
  if (!document.querySelector("nav[aria-label] [aria-current]")) faults.push("navigation does not say where we are");
  if (!document.querySelector("header")) faults.push("no header");
}
if (!document.documentElement.lang) faults.push("no language");
if (!document.title.trim()) faults.push("no title");
const ids = new Set();
for (const { id } of document.querySelectorAll("[id]")) ids.has(id) ? faults.push(`id twice: ${id}`) : ids.add(id);
for (const it of document.querySelectorAll("[aria-describedby], [aria-labelledby], [aria-controls]")) {
  for (const name of ["aria-describedby", "aria-labelledby", "aria-controls"]) {
    const target = it.getAttribute(name);
    if (target && !document.getElementById(target)) say(`${name} names nothing`, it);
  }
}

// Names
for (const it of document.querySelectorAll("input:not([type=hidden]), select, textarea")) {
  if (!it.labels.length && !it.ariaLabel) say("no label", it);
}
for (const it of document.querySelectorAll("a[href], button, summary")) {
  if (!(it.textContent.trim() || it.ariaLabel)) say("no name", it);
}
for (const it of document.querySelectorAll("img:not([alt])")) say("no alternative text", it);
for (const it of document.querySelectorAll("th:not([scope])")) say("no scope", it);

// Width: nothing makes the page itself scroll sideways.
const room = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > room) {
  faults.push(`scrolls sideways: ${document.documentElement.scrollWidth} > ${room}`);
  for (const it of document.querySelectorAll("body *")) {
    const box = it.getBoundingClientRect();
    if (visible(it) && (box.right > room + 1 || box.left < -1) && box.width < 5000) say("sticks out", it);
  }
}

// Touch: what one presses is large enough for a finger (WCAG 2.2, 2.5.8: 24 by 24).
for (const it of document.querySelectorAll("button, .button, .chip, .nav a, summary, select, .input")) {
  const box = it.getBoundingClientRect();
  if (visible(it) && box.width && (box.width < 24 || box.height < 22)) say(`small target ${box.width}x${box.height}`, it);
}

// Contrast of every piece of text against what lies behind it (WCAG AA).
const parse = (text) => {
  const numbers = text.match(/[\d.]+/g).map(Number);
  const scale = text.startsWith("color(") ? 255 : 1;
  return { rgb: numbers.slice(0, 3).map((number) => number * scale), alpha: numbers[3] ?? 1 };
};
const over = (front, back) => front.rgb.map((channel, i) => channel * front.alpha + back[i] * (1 - front.alpha));
const grounds = new Map([[null, [255, 255, 255]]]);
const behind = (it) => {
  if (!grounds.has(it)) grounds.set(it, over(parse(getComputedStyle(it).backgroundColor), behind(it.parentElement)));
  return grounds.get(it);
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((channel) => channel / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const it = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !visible(it) || it.closest(".visually-hidden, option, datalist, noscript, .skip")) continue;
  const style = getComputedStyle(it);
  const back = behind(it);
  const [a, b] = [light(over(parse(style.color), back)), light(back)];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, it);
}
return faults.slice(0, 20);
