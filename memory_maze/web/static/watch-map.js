// A maze from above, with the way of an agent until a step, and what probes answer there.

const INK = "#14161a", WALL = "#424854", FLOOR = "#f6f6f3", FALSE_WALL = "#c83c3c", FALSE_FLOOR = "#f5a596";
const TIME = [[40, 30, 120], [0, 150, 160], [255, 150, 0]]; // of the trail, from the first to the last step

export function drawMap(canvas, episode, now, answers) {
  const pen = canvas.getContext("2d"), size = episode.size, cell = canvas.width / (size + 2);
  const mark = Math.max(cell, canvas.width / 12); // lines and the agent are as thick in large mazes
  const place = ([x, y]) => [(x + 1) * cell, (size + 1 - y) * cell];
  pen.fillStyle = WALL;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  for (let row = 0; row < size; row++) for (let column = 0; column < size; column++) {
    const color = colorOf(episode, now, row, column, answers);
    if (color === WALL) continue;
    pen.fillStyle = color;
    const left = Math.round((column + 1) * cell), top = Math.round((size - row) * cell);
    pen.fillRect(left, top, Math.round((column + 2) * cell) - left, Math.round((size + 1 - row) * cell) - top);
  }
  drawTrail(pen, episode, now, place, .1 * mark);
  dot(pen, place(episode.positions[0]), .14 * mark, "#fff");
  const target = episode.targetAt(now);
  episode.objects.forEach((object, index) => {
    if (index === target) {
      dot(pen, place(object), .66 * cell, episode.colors[index]);
      dot(pen, place(object), .5 * cell, "#fff");
    }
    dot(pen, place(object), .36 * cell, episode.colors[index]);
  });
  if (answers && episode.places !== undefined) {
    episode.places[now].forEach((spot, index) => cross(pen, place(spot), .4 * cell, episode.colors[index]));
  }
  drawAgent(pen, place(episode.positions[now]), episode.headings[now], .36 * mark);
}

function colorOf(episode, now, row, column, answers) {
  const free = episode.layout[row][column] === ".";
  if (!answers || episode.freeAt === null) return free ? FLOOR : WALL;
  const answered = episode.freeAt(now, row, column) === 1;
  return free === answered ? (free ? FLOOR : WALL) : free ? FALSE_WALL : FALSE_FLOOR;
}

function drawTrail(pen, episode, now, place, width) {
  pen.lineWidth = width;
  pen.lineCap = pen.lineJoin = "round";
  const pieces = 60, length = Math.max(1, Math.ceil(episode.steps / pieces)); // of one colour each
  for (let start = 0; start < now; start += length) {
    pen.strokeStyle = timeColor(start / episode.steps);
    pen.beginPath();
    pen.moveTo(...place(episode.positions[start]));
    for (let step = start + 1; step <= Math.min(start + length, now); step++) pen.lineTo(...place(episode.positions[step]));
    pen.stroke();
  }
}

function timeColor(part) {
  const spot = part * (TIME.length - 1), index = Math.min(Math.floor(spot), TIME.length - 2);
  const mix = TIME[index].map((value, channel) => Math.round(value + (spot - index) * (TIME[index + 1][channel] - value)));
  return `rgb(${mix.join(",")})`;
}

function dot(pen, [x, y], radius, color) {
  pen.fillStyle = color;
  pen.strokeStyle = INK;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
  pen.stroke();
}

function cross(pen, [x, y], radius, color) {
  for (const [style, width] of [[INK, .62], [color, .38]]) {
    pen.strokeStyle = style;
    pen.lineWidth = width * radius;
    pen.beginPath();
    for (const sign of [1, -1]) {
      pen.moveTo(x - radius, y - sign * radius);
      pen.lineTo(x + radius, y + sign * radius);
    }
    pen.stroke();
  }
}

function drawAgent(pen, [x, y], heading, radius) {
  const [dx, dy] = [Math.cos(heading), -Math.sin(heading)];
  pen.fillStyle = "#fff";
  pen.strokeStyle = INK;
  pen.lineWidth = Math.max(radius / 4, 2);
  pen.beginPath();
  pen.moveTo(x + 1.2 * radius * dx, y + 1.2 * radius * dy);
  pen.lineTo(x + radius * (-.8 * dx - .8 * dy), y + radius * (-.8 * dy + .8 * dx));
  pen.lineTo(x + radius * (-.8 * dx + .8 * dy), y + radius * (-.8 * dy - .8 * dx));
  pen.closePath();
  pen.fill();
  pen.stroke();
}
