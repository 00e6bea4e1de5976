"use strict";
const film = JSON.parse(document.getElementById("recording").textContent);
const element = (id) => document.getElementById(id);
const last = film.action.length - 1, count = film.actions.length;
let now = 0, timer = null;

const shape = (name, attributes, parent, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
};
const show = (value) => Number(value.toPrecision(3)).toString();
const middle = (t, a) => (film.centre ?? film.mean)[t][a];
const spread = (t, a) => (film.std ? film.std[t][a] : 0);
const drawn = (t, a) => (film.draw ?? film.mean)[t][a];

// The axis of Q is as long throughout, so that widths can be compared; its centre follows the values.
const ends = film.mean.map((row, t) => {
  // Bold draws lie so far out that nothing else could be told apart: they stand at the edge.
  const draw = (a) => (film.kind[t] === "bold" ? row[a] : drawn(t, a));
  const low = row.map((mean, a) => Math.min(mean, middle(t, a) - 3 * spread(t, a), draw(a)));
  const high = row.map((mean, a) => Math.max(mean, middle(t, a) + 3 * spread(t, a), draw(a)));
  return [Math.min(...low), Math.max(...high)];
});
// Three decisions in four fit. A few far states would make all other bells too narrow to see.
const halves = ends.map(([low, high]) => (high - low) / 2).sort((a, b) => a - b);
const half = Math.max(halves[Math.ceil(0.75 * halves.length) - 1], 1e-9);
const centre = () => (ends[now][0] + ends[now][1]) / 2;

// --- belief: a row per action ---------------------------------------------------------------------------------
const belief = element("belief"), width = Math.max(300, belief.clientWidth || 560);
const rowHeight = Math.max(34, Math.min(104, 400 / count)), floor = rowHeight - 12;
const longest = Math.max(...film.actions.map((name) => Math.min(name.length, 12)));
const names = 20 + 8 * longest, chances = film.best ? 96 : 12, right = width - chances;
// What lies farther out stands at the end.
const unit = (right - names) / (2 * half); // pixels per unit of Q
const x = (q) => Math.max(names, Math.min(right, (names + right) / 2 + (q - centre()) * unit));
// A normal density from -3 to 3 standard deviations, one high; each action scales it to its own spread.
const steps = Array.from({ length: 61 }, (_, i) => -3 + i / 10);
const unitBell = `M-3 0${steps.map((z) => `L${z} ${-Math.exp((-z * z) / 2)}`).join("")}L3 0Z`;
belief.setAttribute("viewBox", `0 0 ${width} ${count * rowHeight + 30}`);
const plot = shape("clipPath", { id: "plot" }, belief);
shape("rect", { x: names, y: 0, width: right - names, height: rowHeight }, plot);
const rows = film.actions.map((name, a) => {
  const group = shape("g", { transform: `translate(0 ${a * rowHeight})` }, belief);
  const row = { group };
  shape("rect", { class: "row", x: 0, y: 2, width, height: rowHeight - 4, rx: 6 }, group);
  const label = shape("text", { class: "name", x: 8, y: floor - 4 }, group, name.length > 12 ? `${name.slice(0, 11)}…` : name);
  shape("title", {}, label, name);
  shape("line", { class: "floor", x1: names, x2: right, y1: floor, y2: floor }, group);
  if (film.std) row.bell = shape("path", { class: "bell", d: unitBell }, shape("g", { "clip-path": "url(#plot)" }, group));
  row.mean = shape("line", { class: "mean-mark", y1: 7, y2: floor }, group);
  if (film.draw) row.draw = shape("path", { class: "draw-mark", d: "M0-7L7 0L0 7L-7 0Z" }, group);
  if (film.best) {
    shape("rect", { class: "track", x: right + 12, y: floor - 12, width: 40, height: 8, rx: 4 }, group);
    row.chance = shape("rect", { class: "chance", x: right + 12, y: floor - 12, height: 8, rx: 4 }, group);
    row.percent = shape("text", { x: width - 4, y: floor - 4, "text-anchor": "end" }, group);
  }
  return row;
});
const base = count * rowHeight;
shape("line", { class: "axis", x1: names, x2: right, y1: base + 3, y2: base + 3 }, belief);
const marks = [-1, 0, 1].map((side) => {
  const anchor = ["start", "middle", "end"][side + 1], place = names + (side + 1) * 0.5 * (right - names);
  return [side, shape("text", { x: place, y: base + 20, "text-anchor": anchor }, belief)];
});
shape("text", { x: 8, y: base + 20 }, belief, "Q");
if (film.best) shape("text", { x: width - 2, y: base + 20, "text-anchor": "end" }, belief, "P(best)");

// --- timeline: uncertainty, rewards, ends of episodes ------------------------------------------------------------
const timeline = element("timeline"), along = (t) => (last ? (t / last) * 1000 : 500);
const line = (values, most, colour) => {
  const points = values.map((v, t) => `${along(t).toFixed(1)},${(140 - (v / most) * 120).toFixed(1)}`);
  shape("path", { class: `line c${colour}`, d: `M${points.join("L")}`, "vector-effect": "non-scaling-stroke" }, timeline);
};
const legend = element("timeline-legend");
const entry = (colour, text) => {
  const span = document.createElement("span"), key = document.createElement("i");
  key.className = `key c${colour}`;
  span.append(key, text);
  legend.append(span);
};
timeline.setAttribute("preserveAspectRatio", "none");
timeline.style.height = "110px";
film.ended.forEach((ended, t) => ended && shape("line", { class: "edge", x1: along(t), x2: along(t), y1: 0, y2: 150 }, timeline));
film.reward.forEach((reward, t) => reward && shape("line", { class: "tick", x1: along(t), x2: along(t), y1: 142, y2: 150 }, timeline));
if (film.std) {
  const chosen = film.action.map((a, t) => film.std[t][a]), most = Math.max(...chosen, 1e-12);
  line(chosen, most, 0);
  line(film.best.map((row, t) => 1 - row[film.action[t]]), 1, 2);
  entry(0, `std of the chosen action's Q (at most ${show(most)})`);
  entry(2, "probability that another action is the best");
} else {
  const gaps = film.mean.map((row) => { const s = [...row].sort((a, b) => b - a); return s[0] - (s[1] ?? s[0]); });
  const most = Math.max(...gaps, 1e-12);
  line(gaps, most, 0);
  entry(0, `gap between the best two actions (at most ${show(most)})`);
}
entry(4, "reward (ticks)");
const cursor = shape("line", { class: "cursor", y1: 0, y2: 150, "vector-effect": "non-scaling-stroke" }, timeline);

// --- observation, where there is no picture ------------------------------------------------------------------------
const bars = element("bars"), signed = film.observations.some((row) => row.some((v) => v < 0));
const zero = signed ? 110 : 210, reach = signed ? 96 : 192;
if (bars) shape("line", { class: "axis", x1: 10, x2: 286, y1: zero, y2: zero }, bars);
const bar = bars && film.observations[0].map((_, i, all) =>
  shape("rect", { class: "bar", x: 10 + (i * 280) / all.length, width: 280 / all.length - 6, rx: 3 }, bars));

const totals = [];
film.reward.reduce((sum, reward, t) => (totals[t] = (t && film.ended[t - 1] ? 0 : sum) + reward), 0);

const go = (t) => {
  now = Math.max(0, Math.min(last, t));
  element("scrub").value = now;
  cursor.setAttribute("x1", along(now));
  cursor.setAttribute("x2", along(now));
  if (film.pictures.length) element("picture").src = film.pictures[film.order[now]];
  if (bar) bar.forEach((rect, i) => {
    const value = film.observations[now][i];
    rect.setAttribute("y", zero - Math.max(0, value) * reach);
    rect.setAttribute("height", Math.abs(value) * reach);
  });
  for (const [side, mark] of marks) mark.textContent = show(centre() + side * half);
  const [low, mid, high] = marks.map(([, mark]) => mark.getComputedTextLength());
  marks[1][1].style.visibility = 2 * Math.max(low, high) + mid + 16 > right - names ? "hidden" : ""; // it has no room
  rows.forEach((row, a) => {
    const mean = film.mean[now][a], peak = middle(now, a), std = spread(now, a);
    const forbidden = film.allowed && !film.allowed[now][a];
    row.group.setAttribute("class", a === film.action[now] ? "chosen" : forbidden ? "forbidden" : "");
    row.mean.setAttribute("x1", x(mean));
    row.mean.setAttribute("x2", x(mean));
    if (row.draw) row.draw.setAttribute("transform", `translate(${x(drawn(now, a))} ${floor})`);
    if (row.bell) row.bell.setAttribute("transform", `translate(${x(peak)} ${floor}) scale(${Math.max(0.3, std * unit)} ${floor - 8})`);
    if (row.chance) {
      row.chance.setAttribute("width", 40 * film.best[now][a]);
      row.percent.textContent = `${Math.round(100 * film.best[now][a])}%`;
    }
  });
  const a = film.action[now], best = film.greedy[now];
  const draw = [film.redrawn[now] ? "new" : "", film.kind[now] ?? ""].filter(Boolean).map((word) => ` ${word}`).join("");
  const explores = best === a ? "" : `, not the mean's best (${film.actions[best]})`;
  element("status").textContent =
    `Decision ${now + 1} of ${last + 1}${draw && `,${draw} draw`}: ${film.actions[a]}${explores}. Reward ${show(film.reward[now])}, return so far ${show(totals[now])}.`;
};

const pause = () => { clearInterval(timer); timer = null; element("play").textContent = "Play"; };
const play = () => {
  if (now === last) go(0);
  element("play").textContent = "Pause";
  timer = setInterval(() => (now === last ? pause() : go(now + 1)), 1000 / Number(element("speed").value));
};
const toggle = () => (timer ? pause() : play());
element("play").addEventListener("click", toggle);
element("speed").addEventListener("change", () => timer && (pause(), play()));
element("scrub").addEventListener("input", (event) => { pause(); go(Number(event.target.value)); });
const seek = (event) => {
  const box = timeline.getBoundingClientRect();
  pause();
  go(Math.round(((event.clientX - box.left) / box.width) * last));
};
timeline.addEventListener("pointerdown", seek);
timeline.addEventListener("pointermove", (event) => event.buttons && seek(event));
const keys = { ArrowLeft: () => go(now - 1), ArrowRight: () => go(now + 1), Home: () => go(0), End: () => go(last), " ": toggle };
document.addEventListener("keydown", (event) => {
  if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
  event.preventDefault(); // the slider and the button would act a second time
  if (event.key !== " ") pause();
  keys[event.key]();
});
go(0);
