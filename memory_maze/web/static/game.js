// One game: keys go to the server, pictures come back.
import { find } from "./api.js";

const FORWARD = 1, LEFT = 2, RIGHT = 4;
const KEYS = {
  ArrowUp: FORWARD, KeyW: FORWARD, ArrowLeft: LEFT, KeyA: LEFT, ArrowRight: RIGHT, KeyD: RIGHT,
};

export class Game {
  constructor(episode, paper, leave, drawMap) {
    this.episode = episode;
    this.paper = paper;
    this.leaveTo = leave;
    this.drawMap = drawMap;
    this.held = 0;
    this.touches = new Map();
    this.resolution = 256;
    this.last = null;
    this.over = this.closed = false;
    this.tries = 0;
    this.bind();
    this.tell("Loading", "The maze is being built.");
    this.connect();
  }

  connect() {
    const address = new URL("/api/play", location.href);
    address.protocol = address.protocol.replace("http", "ws");
    const socket = this.socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { if (this.resolution !== 256) this.send("resolution", this.resolution); };
    socket.onmessage = (event) => this.take(event.data);
    socket.onclose = (event) => this.lost(socket, event);
  }

  lost(socket, event) {
    if (this.closed || this.over || socket !== this.socket) return;
    if (event.code === 4404) return this.leave();
    if (event.code === 4409) return this.tell("Open elsewhere", "This game goes on in another window.");
    this.tries += 1;
    this.tell("Connection lost", "Your game waits. Trying again...");
    setTimeout(() => { if (!this.closed) this.connect(); }, Math.min(500 * this.tries, 5000));
  }

  send(name, value) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ [name]: value }));
  }

  async take(data) {
    const length = new DataView(data).getUint32(0);
    const told = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
    const picture = await createImageBitmap(new Blob([new Uint8Array(data, 4 + length)]));
    if (this.closed || (this.last && told.picture < this.last.picture && this.tries === 0)) return;
    this.tries = 0;
    this.draw(told, picture);
    this.send("seen", told.picture);
  }

  draw(told, picture) {
    const canvas = find("view");
    if (canvas.width !== picture.width) canvas.width = canvas.height = picture.width;
    canvas.classList.toggle("pixels", picture.width <= 64);
    canvas.getContext("2d").drawImage(picture, 0, 0);
    const before = this.last;
    this.last = told;
    find("score").textContent = told.score;
    find("target").textContent = told.target;
    find("swatch").style.background = `rgb(${told.color})`;
    const seconds = Math.ceil(told.left / told.pace);
    find("left").textContent = `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
    find("time").value = told.left / (told.left + told.step);
    find("kind").textContent = `${told.task}, ${told.practice ? "practice" : "for the score"}`;
    canvas.dataset.step = told.step;
    canvas.dataset.score = told.score;
    find("sharp").hidden = told.pixels !== 64; // agents see the sharp view in some variants
    find("map-card").hidden = !told.map;
    if (told.map) this.drawMap(find("map"), told.map);
    if (before && told.score > before.score) this.flash();
    if (told.over) return this.finish();
    if (told.paused) this.wait();
    else find("veil").hidden = true;
  }

  flash() {
    find("screen").classList.add("reached");
    setTimeout(() => find("screen").classList.remove("reached"), 350);
  }

  wait() {
    const begun = this.last.step > 0;
    this.tell(begun ? "Paused" : "Ready?", "Press a key, or the button.", begun ? "Go on" : "Start");
  }

  finish() {
    this.over = true;
    const rows = this.paper.filter((row) => row.kind !== "agent").map((row) => `${row.name} ${row.mean}`);
    const beside = rows.length ? ` The paper's: ${rows.join(", ")}.` : "";
    this.tell(`Score ${this.last.score}`, `The time is up.${beside}`, "Back to the mazes");
  }

  tell(title, text, button) {
    find("veil").hidden = false;
    find("veil-title").textContent = title;
    find("veil-text").textContent = text;
    find("veil-button").hidden = !button;
    if (button) find("veil-button").textContent = button;
  }

  press(bit, down) {
    if (this.over || !this.last) return;
    if (down && this.last.paused) this.pause(false);
    const held = down ? this.held | bit : this.held & ~bit;
    if (held === this.held) return;
    this.held = held;
    this.send("keys", held);
  }

  pause(paused) {
    if (this.over || !this.last) return;
    this.last.paused = paused;
    this.held = 0;
    this.send("pause", paused);
    if (!paused) find("veil").hidden = true;
  }

  leave() {
    this.closed = true;
    this.controls.abort();
    this.socket.close();
    this.leaveTo();
  }

  bind() {
    this.controls = new AbortController();
    const on = (target, name, act) => target.addEventListener(name, act, { signal: this.controls.signal });
    on(window, "keydown", (event) => this.key(event, true));
    on(window, "keyup", (event) => this.key(event, false));
    on(window, "blur", () => this.pause(true)); // keys that are let go elsewhere would stay held
    on(document, "visibilitychange", () => { if (document.hidden) this.pause(true); });
    on(find("veil-button"), "click", () => (this.over ? this.leave() : this.pause(false)));
    on(find("pause"), "click", () => this.pause(this.last ? !this.last.paused : true));
    on(find("sharp"), "click", () => this.sharpen());
    for (const button of find("touch").querySelectorAll("button")) {
      const bit = Number(button.dataset.key);
      on(button, "pointerdown", (event) => { event.preventDefault(); this.touch(event, bit); });
      for (const name of ["pointerup", "pointercancel"]) on(button, name, (event) => this.touch(event, 0));
      on(button, "contextmenu", (event) => event.preventDefault());
    }
  }

  key(event, down) {
    if (event.code === "Space" && down && !event.repeat) {
      event.preventDefault();
      return this.over ? undefined : this.pause(!this.last?.paused);
    }
    const bit = KEYS[event.code];
    if (!bit || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    if (!event.repeat) this.press(bit, down);
  }

  touch(event, bit) {
    const before = this.touches.get(event.pointerId) || 0;
    if (bit) this.touches.set(event.pointerId, bit); else this.touches.delete(event.pointerId);
    if (bit) this.press(bit, true);
    else if (before && ![...this.touches.values()].includes(before)) this.press(before, false);
  }

  sharpen() {
    this.resolution = this.resolution === 256 ? 64 : 256;
    find("sharp").textContent = this.resolution === 256 ? "Agent's view" : "Sharp view";
    this.send("resolution", this.resolution);
  }
}
