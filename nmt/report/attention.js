"use strict";
/* Attention: a small picture of each head; one that is chosen is enlarged in a dialog. */
window.report.whenShown("attention", (section, data) => {
  const { colour } = window.report;
  const pictures = [];
  let enlarged = null;

  const channels = (name) => {
    const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    pixel.fillStyle = colour(name);
    pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  /* 256 colours from that of an empty cell to that of a weight of 1 */
  function palette() {
    const [low, high] = [channels("surface"), channels("accent")];
    return Array.from({ length: 256 }, (_, level) =>
      low.map((from, channel) => Math.round(from + ((high[channel] - from) * level) / 255)));
  }

  function weightsOf(content) {
    if (typeof content.weights === "string") {
      content.weights = Uint8Array.from(atob(content.weights), (letter) => letter.charCodeAt(0));
    }
    return content.weights;
  }
  function weightsOfHead(content, layer, head) {
    const size = content.rows.length * content.columns.length;
    const start = (layer * content.heads + head) * size;
    return weightsOf(content).subarray(start, start + size);
  }

  function paint(canvas, { content, layer, head }, colours) {
    const [height, width] = [content.rows.length, content.columns.length];
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    weightsOfHead(content, layer, head).forEach((level, cell) => image.data.set([...colours[level], 255], cell * 4));
    context.putImageData(image, 0, 0);
  }

  function summary({ content, layer, head }) {
    const weights = weightsOfHead(content, layer, head);
    const cells = [...weights.keys()].sort((one, other) => weights[other] - weights[one]).slice(0, 3);
    const width = content.columns.length;
    return cells.map((cell) => `${content.rows[Math.floor(cell / width)]} to ${content.columns[cell % width]} `
      + (weights[cell] / 255).toFixed(2)).join(", ");
  }

  function heads(place) {
    const content = data.sentences[place.dataset.sentence][place.dataset.kind];
    place.style.setProperty("--columns", content.heads);
    for (let layer = 0; layer < content.layers; layer += 1) {
      for (let head = 0; head < content.heads; head += 1) {
        const picture = { content, layer, head, canvas: document.createElement("canvas") };
        const button = Object.assign(document.createElement("button"), { type: "button" });
        const name = `layer ${layer + 1}, head ${head + 1}`;
        const label = Object.assign(document.createElement("small"), { textContent: `${layer + 1}.${head + 1}` });
        label.ariaHidden = "true";
        button.setAttribute("aria-label", `${content.title}, ${name}. Strongest weights: ${summary(picture)}. Enlarge`);
        button.title = name;
        button.append(picture.canvas, label);
        button.addEventListener("click", () => enlarge(picture, name));
        place.append(button);
        pictures.push(picture);
      }
    }
  }

  /* The enlarged head */

  const dialog = section.querySelector("dialog");
  dialog.setAttribute("aria-labelledby", "attention-dialog-title");
  dialog.innerHTML = `<h3 id="attention-dialog-title"></h3><output aria-live="polite"></output>
    <div class="scroll"><canvas tabindex="0" role="img"></canvas></div>
    <form method="dialog"><button>Close</button></form>`;
  const [title, output, canvas] = ["h3", "output", "canvas"].map((name) => dialog.querySelector(name));

  function enlarge(picture, name) {
    enlarged = { ...picture, row: 0, column: 0 };
    title.textContent = `${picture.content.title}, ${name}`;
    canvas.setAttribute("aria-label", `${title.textContent}: rows ${picture.content.rows.join(" ")}; columns `
      + `${picture.content.columns.join(" ")}. Arrow keys choose a cell.`);
    dialog.showModal();
    paintEnlarged();
    point(0, 0);
    canvas.focus();
  }

  function paintEnlarged() {
    const { content, layer, head } = enlarged;
    const [count, width] = [content.rows.length, content.columns.length];
    const context = canvas.getContext("2d");
    const font = `13px ${getComputedStyle(document.body).fontFamily}`;
    context.font = font;
    const longest = (tokens) => Math.ceil(Math.max(...tokens.map((token) => context.measureText(token).width))) + 10;
    const [left, top] = [longest(content.rows), longest(content.columns)];
    const room = Math.min(window.innerWidth * 0.9 - left - 60, 760);
    const cell = Math.max(18, Math.min(44, Math.floor(room / width)));
    Object.assign(enlarged, { left, top, cell });
    const [wide, high, scale] = [left + width * cell + 2, top + count * cell + 2, window.devicePixelRatio || 1];
    Object.assign(canvas, { width: wide * scale, height: high * scale });
    Object.assign(canvas.style, { width: `${wide}px`, height: `${high}px` });
    context.scale(scale, scale);
    const colours = palette();
    weightsOfHead(content, layer, head).forEach((level, index) => {
      context.fillStyle = `rgb(${colours[level]})`;
      context.fillRect(left + (index % width) * cell, top + Math.floor(index / width) * cell, cell - 1, cell - 1);
    });
    Object.assign(context, { font, fillStyle: colour("text"), textBaseline: "middle", textAlign: "right" });
    content.rows.forEach((token, row) => context.fillText(token, left - 6, top + (row + 0.5) * cell));
    context.textAlign = "left";
    content.columns.forEach((token, column) => {
      context.save();
      context.translate(left + (column + 0.5) * cell, top - 6);
      context.rotate(-Math.PI / 2);
      context.fillText(token, 0, 0);
      context.restore();
    });
    Object.assign(context, { strokeStyle: colour("bad"), lineWidth: 2 });
    context.strokeRect(left + enlarged.column * cell, top + enlarged.row * cell, cell - 1, cell - 1);
  }

  function point(row, column) {
    const { content, layer, head } = enlarged;
    if (row < 0 || column < 0 || row >= content.rows.length || column >= content.columns.length) return;
    Object.assign(enlarged, { row, column });
    const weight = weightsOfHead(content, layer, head)[row * content.columns.length + column] / 255;
    output.textContent = `${content.rows[row]} → ${content.columns[column]}: ${weight.toFixed(2)}`;
    paintEnlarged();
  }

  canvas.addEventListener("pointermove", (event) => {
    const { left, top, cell } = enlarged;
    point(Math.floor((event.offsetY - top) / cell), Math.floor((event.offsetX - left) / cell));
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    point(enlarged.row + move[0], enlarged.column + move[1]);
  });
  dialog.addEventListener("close", () => { enlarged = null; });

  function repaint() {
    const colours = palette();
    pictures.forEach((picture) => paint(picture.canvas, picture, colours));
    if (enlarged) paintEnlarged();
  }
  section.querySelectorAll(".heads").forEach(heads);
  repaint();
  window.report.whenThemeChanges(repaint);
});
