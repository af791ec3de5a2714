// What pages share: asking the server, and small helpers.

export async function ask(path, body) {
  const options = body === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  };
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("the server does not answer");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.error || `the server says ${answer.status}`);
  return data;
}

export const find = (id) => document.getElementById(id);

export function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text; // never as HTML: names are not trusted
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

export const COLORS = {
  red: "#c52c23", green: "#73c566", blue: "#2da2fc", purple: "#6c7ae7", yellow: "#ffe044", salmon: "#ff947c",
};

// A maze from above: {layout: rows of 0 and 1 from the bottom, position, direction, objects, colors}.
export function drawMap(canvas, map) {
  const pen = canvas.getContext("2d"), size = map.layout.length, cell = canvas.width / (size + 2);
  const place = ([x, y]) => [(x + 1) * cell, (size + 1 - y) * cell];
  pen.fillStyle = "#424854";
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = "#f6f6f3";
  map.layout.forEach((row, y) => [...row].forEach((free, x) => {
    if (free === "1") pen.fillRect((x + 1) * cell - .5, (size - y) * cell - .5, cell + 1, cell + 1);
  }));
  map.objects.forEach((object, index) => {
    const [x, y] = place(object);
    pen.fillStyle = COLORS[map.colors[index]];
    pen.strokeStyle = "#16181d";
    pen.lineWidth = cell / 14;
    pen.beginPath();
    pen.arc(x, y, .36 * cell, 0, 7);
    pen.fill();
    pen.stroke();
  });
  const [x, y] = place(map.position), [dx, dy] = [map.direction[0], -map.direction[1]], r = .34 * cell;
  pen.fillStyle = "#16181d";
  pen.beginPath();
  pen.moveTo(x + 1.2 * r * dx, y + 1.2 * r * dy);
  pen.lineTo(x - .8 * r * (dx + dy), y - .8 * r * (dy - dx));
  pen.lineTo(x - .8 * r * (dx - dy), y - .8 * r * (dy + dx));
  pen.fill();
}
