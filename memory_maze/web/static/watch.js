// Watch one or two episodes. The address holds what is shown: #a=ID&b=ID&t=120.

import { ask, find, make } from "./api.js";
import { drawMap } from "./watch-map.js";

const STRIP = 64, KEPT = 48; // pictures in one file, and how many files are kept of an episode
const PACE = 6; // steps a second at speed 1, as people play
const NONE = "";
const shown = { a: null, b: null }; // what is in the panels
let listed = [], step = 0, timer = null, due = 0;

class Episode {
  // Everything of an episode; pictures come in strips when they are needed.
  constructor(id, told) {
    Object.assign(this, told);
    this.id = id;
    this.strips = new Map();
    this.freeAt = told.walls === undefined ? null : unpack(told.walls, told.size);
    this.hasAnswers = told.walls !== undefined || told.places !== undefined;
  }

  lastBefore(pairs, step) {
    // The value of the last of [step, value] pairs that is not after a step.
    let low = 0, high = pairs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pairs[middle][0] <= step) low = middle + 1; else high = middle;
    }
    return low ? pairs[low - 1][1] : 0;
  }

  scoreAt(step) { return this.lastBefore(this.rewards, step); }
  targetAt(step) { return this.lastBefore(this.targets, step); }

  strip(number) {
    let strip = this.strips.get(number);
    if (strip === undefined) {
      const image = new Image();
      strip = { image, ready: false, wrong: false };
      strip.done = new Promise((resolve) => {
        image.onload = () => { strip.ready = true; resolve(); };
        image.onerror = () => { strip.wrong = true; this.strips.delete(number); resolve(); };
      });
      image.src = `/api/watch/${this.id}/pictures?from=${number * STRIP}&count=${STRIP}`;
      this.strips.set(number, strip);
      while (this.strips.size > KEPT) this.strips.delete(this.strips.keys().next().value);
    }
    return strip;
  }

  look(step) {
    // The strip that holds a step's picture; the next one is fetched before it is needed.
    const number = Math.floor(step / STRIP);
    if (step % STRIP > STRIP / 2 && (number + 1) * STRIP <= this.steps) this.strip(number + 1);
    return this.strip(number);
  }
}

function unpack(text, size) {
  // Bits of one step after another, each step in whole bytes.
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stride = Math.ceil(size * size / 8);
  return (step, row, column) => {
    const bit = row * size + column;
    return (bytes[step * stride + (bit >> 3)] >> (7 - (bit & 7))) & 1;
  };
}

const panels = {};
for (const side of ["a", "b"]) {
  const panel = find(`panel-${side}`);
  panel.append(find("panel").content.cloneNode(true));
  panels[side] = Object.fromEntries(
    ["name", "score", "view", "map", "swatch"].map((name) => [name, panel.querySelector(`.${name}`)]));
  panels[side].whole = panel;
}

const episodes = () => ["a", "b"].map((side) => shown[side]).filter((episode) => episode !== null);
const lastStep = () => Math.max(1, ...episodes().map((episode) => episode.steps));

function tell(text, wrong = false) {
  find("message").textContent = text;
  find("message").classList.toggle("wrong", wrong);
}

// Drawing

function draw() {
  for (const side of ["a", "b"]) if (shown[side] !== null) drawPanel(panels[side], shown[side]);
  find("time").value = step;
  find("step").textContent = `step ${step} of ${lastStep()}`;
}

function drawPanel(panel, episode) {
  const now = Math.min(step, episode.steps);
  const target = episode.targetAt(now);
  panel.name.textContent = panel.name.title = episode.name;
  panel.score.textContent = `score ${episode.scoreAt(now)}`;
  panel.swatch.style.background = episode.colors[target];
  drawMap(panel.map, episode, now, episode.hasAnswers && find("answers").checked);
  drawView(panel.view, episode, now);
}

function drawView(canvas, episode, now) {
  const strip = episode.look(now);
  canvas.classList.toggle("late", !strip.ready);
  if (strip.ready) {
    const pen = canvas.getContext("2d");
    pen.drawImage(strip.image, (now % STRIP) * 64, 0, 64, 64, 0, 0, 64, 64);
    canvas.dataset.step = now;
    return;
  }
  strip.done.then(() => {
    if (strip.wrong) tell("a picture did not come: the server does not answer", true);
    else if (episodes().includes(episode)) draw();
  });
}

function drawMarks(side) {
  const marks = find(`marks-${side}`), episode = shown[side];
  marks.replaceChildren(...(episode === null ? [] : episode.rewards).map(([at, score]) => {
    const mark = make("i", undefined, { title: `score ${score} at step ${at}` });
    mark.style.left = `${100 * at / lastStep()}%`;
    mark.style.background = episode.colors[episode.targetAt(at - 1)];
    mark.addEventListener("click", () => go(at));
    return mark;
  }));
}

// Time

function go(to) {
  step = Math.max(0, Math.min(lastStep(), Math.round(to)));
  draw();
  remember();
}

function play(on) {
  if (on === (timer !== null)) return;
  find("play").textContent = on ? "Pause" : "Play";
  if (!on) {
    cancelAnimationFrame(timer);
    timer = null;
    remember();
    return;
  }
  if (step >= lastStep()) step = 0;
  due = performance.now();
  timer = requestAnimationFrame(tick);
}

function tick(now) {
  timer = requestAnimationFrame(tick);
  const interval = 1000 / (PACE * Number(find("speed").value));
  if (!episodes().every((episode) => episode.look(Math.min(step, episode.steps)).ready)) {
    due = now + interval; // pictures are late: wait for them
    return;
  }
  if (now < due) return;
  const passed = Math.min(1 + Math.floor((now - due) / interval), STRIP / 2);
  due = Math.max(due + passed * interval, now - interval);
  step = Math.min(step + passed, lastStep());
  draw();
  if (step >= lastStep()) play(false);
}

// Choosing

let remembering = null;

function remember() {
  // Browsers take few changes of the address a second.
  clearTimeout(remembering);
  remembering = setTimeout(writeAddress, 200);
}

function writeAddress() {
  const parts = ["a", "b"].filter((side) => shown[side]).map((side) => `${side}=${shown[side].id}`);
  history.replaceState(null, "", `#${[...parts, `t=${step}`].join("&")}`);
}

const KINDS = { person: "People", data: "Data sets", agent: "Agents", probe: "Probes" };

function fill(select, entries, first) {
  const groups = entries.map((entry) => entry.group).filter((group, index, all) => all.indexOf(group) === index);
  const chosen = select.value;
  select.replaceChildren(...first, ...groups.map((group) => {
    const options = make("optgroup", undefined, { label: group });
    options.append(...entries.filter((entry) => entry.group === group).map((entry) => {
      const score = entry.score === null ? "" : `, score ${entry.score}`;
      return make("option", entry.name + score, { value: entry.id });
    }));
    return options;
  }));
  select.value = chosen;
}

function fillSecond(id) {
  // Episodes in the same maze stand first: those are to be compared.
  const one = listed.find((entry) => entry.id === id);
  const others = listed.filter((entry) => entry.id !== id);
  const same = (entry) => one && one.maze !== null && entry.maze === one.maze;
  const grouped = [
    ...others.filter(same).map((entry) => ({ ...entry, group: "In the same maze" })),
    ...others.filter((entry) => !same(entry)),
  ];
  fill(find("choice-b"), grouped, [make("option", "nothing", { value: NONE })]);
}

async function load(side, id) {
  if (id === NONE) return null;
  if (shown[side] !== null && shown[side].id === id) return shown[side];
  const entry = listed.find((entry) => entry.id === id);
  const fresh = entry && entry.kind === "agent" && entry.score === null;
  tell(fresh ? `${entry.name}: it is played now, which takes some seconds ...` : "loading ...");
  const episode = new Episode(id, await ask(`/api/watch/${encodeURIComponent(id)}`));
  if (entry) entry.score = episode.score;
  return episode;
}

let loading = 0;

async function choose(a, b, at) {
  const mine = ++loading;
  const wanted = { a: shown.a, b: shown.b };
  let trouble = "";
  play(false);
  try {
    wanted.a = await load("a", a);
    wanted.b = await load("b", b === a ? NONE : b);
  } catch (error) {
    trouble = error.message;
  }
  if (mine !== loading) return; // something else was chosen meanwhile
  Object.assign(shown, wanted);
  tell(trouble, trouble !== "");
  fill(find("choice-a"), listed, []);
  fillSecond(shown.a === null ? NONE : shown.a.id);
  for (const side of ["a", "b"]) {
    find(`choice-${side}`).value = shown[side] === null ? NONE : shown[side].id;
    panels[side].whole.hidden = shown[side] === null;
  }
  const any = shown.a !== null;
  for (const id of ["stage", "controls"]) find(id).hidden = !any;
  if (!any) return;
  find("stage").classList.toggle("alone", shown.b === null);
  find("asking").hidden = find("legend").hidden = !episodes().some((episode) => episode.hasAnswers);
  find("time").max = lastStep();
  drawMarks("a");
  drawMarks("b");
  if (!trouble && shown.b !== null && !inSameMaze(shown.a, shown.b)) tell("These two are in different mazes.");
  go(at);
}

function inSameMaze(one, other) {
  return one.layout.join() === other.layout.join() && one.objects.join() === other.objects.join();
}

function readAddress() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const id = (side) => listed.some((entry) => entry.id === parts.get(side)) ? parts.get(side) : NONE;
  return { a: id("a"), b: id("b"), t: Number(parts.get("t")) || 0, lost: parts.has("a") && id("a") === NONE };
}

async function begin() {
  try {
    listed = (await ask("/api/watch")).map((entry) => ({ ...entry, group: entry.own ? "Yours" : KINDS[entry.kind] }));
  } catch (error) {
    tell(error.message, true);
    return;
  }
  if (!listed.length) {
    tell("There is nothing to watch yet: play an episode first.");
    for (const side of ["a", "b"]) find(`choice-${side}`).disabled = true;
    return;
  }
  const { a, b, t, lost } = readAddress();
  await choose(a || listed[0].id, b, t);
  if (lost) tell("The episode of this link is not there, or not for you.", true);
}

find("choice-a").addEventListener("change", (event) => choose(event.target.value, find("choice-b").value, step));
find("choice-b").addEventListener("change", (event) => choose(find("choice-a").value, event.target.value, step));
find("time").addEventListener("input", (event) => go(event.target.value));
find("play").addEventListener("click", () => play(timer === null));
find("back").addEventListener("click", () => { play(false); go(step - 1); });
find("forth").addEventListener("click", () => { play(false); go(step + 1); });
find("answers").addEventListener("change", draw);
window.addEventListener("hashchange", () => { const { a, b, t } = readAddress(); if (a) choose(a, b, t); });
document.addEventListener("keydown", (event) => {
  if (shown.a === null || event.target.tagName === "SELECT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.type === "checkbox" && event.key === " ") return;
  const far = event.shiftKey ? 10 : 1;
  const keys = {
    " ": () => play(timer === null),
    ArrowLeft: () => { play(false); go(step - far); },
    ArrowRight: () => { play(false); go(step + far); },
    Home: () => go(0),
    End: () => go(lastStep()),
  };
  if (!(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
document.addEventListener("keyup", (event) => {
  if (event.key === " " && event.target.tagName === "BUTTON") event.preventDefault(); // it was obeyed already
});

begin();
