// The page for players: who they are, which maze, and the game.
import { ask, drawMap, find, make } from "./api.js";
import { Game } from "./game.js";

const sections = ["welcome", "lobby", "play"];
let me = null, game = null, shownBoard = null;

function show(name) {
  for (const section of sections) find(section).hidden = section !== name;
  document.querySelectorAll(".error").forEach((line) => { line.textContent = ""; });
}

function complain(section, error) {
  find(section).querySelector(".error").textContent = error.message;
}

async function start() {
  try {
    me = await ask("/api/me");
  } catch (error) {
    show("welcome");
    complain("welcome", error);
    return;
  }
  if (!me.name) {
    show("welcome");
    find("name").focus();
  } else if (me.open && sessionStorage.getItem("playing") === me.open.id) {
    play(me.open); // the page was loaded again
  } else {
    await showLobby();
  }
}

async function showLobby() {
  me = await ask("/api/me");
  show("lobby");
  find("who").textContent = me.name;
  find("going").hidden = !me.open;
  if (me.open) {
    const kind = me.open.practice ? "practice" : "scored";
    find("going-text").textContent =
      `You have a ${kind} game in ${me.open.task} at step ${me.open.steps}, with score ${me.open.score}.`;
  }
  find("sizes").replaceChildren(...me.tasks.map(describeSize));
  showHistory();
  await showBoard(shownBoard || me.tasks[0].name);
}

function describeSize(task) {
  const box = make("div", undefined, { class: "size" }), row = make("div", undefined, { class: "row" });
  const human = task.paper.find((one) => one.kind === "human");
  box.append(make("h3", task.name));
  const objects = task.objects === 1 ? "1 object" : `${task.objects} objects`;
  box.append(make("span", `${objects}, ${describeTime(task.seconds)}`, { class: "soft" }));
  if (human) box.append(make("div", `the paper's human: ${human.mean}`, { class: "soft" }));
  for (const [text, practice] of [["Play for the score", false], ["Practise", true]]) {
    const button = make("button", text, practice ? { class: "quiet" } : {});
    button.dataset.task = task.name;
    button.dataset.practice = practice;
    button.onclick = () => begin(task.name, practice);
    row.append(button);
  }
  box.append(row);
  return box;
}

function describeTime(seconds) {
  return seconds < 90 ? `${Math.ceil(seconds)} seconds` : `${Math.round(seconds / 60)} minutes`;
}

async function begin(task, practice) {
  if (me.open && !me.open.practice && !confirm("Your open game will count as left. Begin a new one?")) return;
  try {
    play(await ask("/api/episodes", { task, practice }));
  } catch (error) {
    complain("lobby", error);
  }
}

function play(episode) {
  sessionStorage.setItem("playing", episode.id);
  show("play");
  const task = me.tasks.find((one) => one.name === episode.task);
  game = new Game(episode, task ? task.paper : [], async () => {
    game = null;
    sessionStorage.removeItem("playing");
    await showLobby();
  }, drawMap);
}

function showHistory() {
  const table = find("history");
  if (!me.done.length) return table.replaceChildren(make("caption", "None yet."));
  const rows = me.done.map((episode) => {
    const row = make("tr");
    row.append(make("td", episode.started.slice(0, 16).replace("T", " ")), make("td", episode.task),
      make("td", episode.practice ? "practice" : "scored"), make("td", episode.score, { class: "number" }));
    const cell = make("td");
    if (episode.watch) cell.append(make("a", "watch", { href: `/watch#a=${encodeURIComponent(episode.watch)}` }));
    row.append(cell);
    return row;
  });
  table.replaceChildren(head(["begun", "maze", "", "score", ""]), ...rows);
}

function head(names) {
  const row = make("tr");
  row.append(...names.map((name) => make("th", name, ["score", "mean", "best", "episodes"].includes(name) ? { class: "number" } : {})));
  return row;
}

async function showBoard(task) {
  shownBoard = task;
  const board = await ask("/api/board");
  find("board-sizes").replaceChildren(...Object.keys(board).map((name) => {
    const button = make("button", name, name === task ? {} : { class: "quiet" });
    button.onclick = () => showBoard(name);
    return button;
  }));
  const rows = (board[task] || []).map((line) => {
    const mine = line.kind === "player" && line.name === me.name;
    const row = make("tr", undefined, { class: mine ? "mine" : line.kind === "player" ? "" : "paper" });
    row.append(make("td", line.kind === "player" ? line.name : `${line.name} (paper)`),
      make("td", line.mean.toFixed(1), { class: "number" }), make("td", line.best ?? "", { class: "number" }),
      make("td", line.episodes ?? "", { class: "number" }));
    return row;
  });
  find("board").replaceChildren(head(["", "mean", "best", "episodes"]), ...rows);
}

find("naming").onsubmit = async (event) => {
  event.preventDefault();
  try {
    await ask("/api/me", { name: find("name").value });
    await showLobby();
  } catch (error) {
    complain("welcome", error);
  }
};
find("rename").onclick = () => {
  show("welcome");
  find("name").value = me.name;
  find("name").focus();
};
find("continue").onclick = () => play(me.open);
find("back").onclick = () => game && game.leave();
start();
