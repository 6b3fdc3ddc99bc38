"use strict";
/* Attention: a small picture of each head; one that is chosen is enlarged in a dialog. */
window.report.whenShown("attention", (section, data) => {
  const { colour } = window.report;
  const pictures = [];
  const kinds = [];
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

  function paint({ content, layer, head, canvas }, colours) {
    const [height, width] = [content.rows.length, content.columns.length];
    Object.assign(canvas, { width, height });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    weightsOfHead(content, layer, head).forEach((level, cell) => image.data.set([...colours[level], 255], cell * 4));
    context.putImageData(image, 0, 0);
  }

  /* Tokens on both axes: those of rows end at x = left, those of columns at y = top. */

  const fontOf = (size) => `${size}px ${getComputedStyle(document.body).fontFamily}`;
  const ruler = document.createElement("canvas").getContext("2d");
  function longest(tokens, size) {
    ruler.font = fontOf(size);
    return Math.ceil(Math.max(...tokens.map((token) => ruler.measureText(token).width)));
  }
  function paintTokens(context, { rows, columns }, { left, top, cell, size }) {
    Object.assign(context, { font: fontOf(size), fillStyle: colour("text"), textBaseline: "middle", textAlign: "right" });
    rows.forEach((token, row) => context.fillText(token, left - 4, top + (row + 0.5) * cell));
    context.textAlign = "left";
    columns.forEach((token, column) => {
      context.save();
      context.translate(left + (column + 0.5) * cell, top - 4);
      context.rotate(-Math.PI / 2);
      context.fillText(token, 0, 0);
      context.restore();
    });
  }
  /* A canvas of this size in CSS pixels, sharp on screens with more pixels */
  function contextOf(canvas, width, height) {
    const scale = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: width * scale, height: height * scale });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    return context;
  }

  function summary({ content, layer, head }) {
    const weights = weightsOfHead(content, layer, head);
    const cells = [...weights.keys()].sort((one, other) => weights[other] - weights[one]).slice(0, 3);
    const width = content.columns.length;
    return cells.map((cell) => `${content.rows[Math.floor(cell / width)]} to ${content.columns[cell % width]} `
      + (weights[cell] / 255).toFixed(2)).join(", ");
  }

  /* The heads of one kind: their tokens are one picture, which is the background of each head. */

  const MOST_TOKENS = 30;
  const LABEL = 11;
  function heads(place) {
    const content = data.sentences[place.dataset.sentence][place.dataset.kind];
    const value = place.querySelector("output");
    const labelled = Math.max(content.rows.length, content.columns.length) <= MOST_TOKENS;
    place.classList.toggle("labelled", labelled);
    if (!labelled) value.textContent = "The sentence is too long for its tokens beside each head: enlarge a head to see them.";
    const kind = { place, content, labelled };
    kinds.push(kind);
    for (let layer = 0; layer < content.layers; layer += 1) {
      const row = Object.assign(document.createElement("div"), { className: "layer" });
      for (let head = 0; head < content.heads; head += 1) {
        const picture = { content, layer, head, canvas: document.createElement("canvas") };
        const button = Object.assign(document.createElement("button"), { type: "button" });
        const name = `layer ${layer + 1}, head ${head + 1}`;
        const label = Object.assign(document.createElement("small"), { textContent: name });
        label.ariaHidden = "true";
        button.setAttribute("aria-label", `${content.title}, ${name}. Strongest weights: ${summary(picture)}. Enlarge`);
        button.append(picture.canvas, label);
        button.addEventListener("click", () => enlarge(picture, name));
        picture.canvas.addEventListener("pointermove", (event) => {
          const box = picture.canvas.getBoundingClientRect();
          const cell = (at, size, count) => Math.min(count - 1, Math.max(0, Math.floor((at / size) * count)));
          value.textContent = `${name}: ` + weightOf(picture, cell(event.clientY - box.top, box.height, content.rows.length),
            cell(event.clientX - box.left, box.width, content.columns.length));
        });
        row.append(button);
        pictures.push(picture);
      }
      place.append(row);
    }
  }

  function weightOf({ content, layer, head }, row, column) {
    const weight = weightsOfHead(content, layer, head)[row * content.columns.length + column] / 255;
    return `${content.rows[row]} → ${content.columns[column]}: ${weight.toFixed(2)}`;
  }

  function paintTokensOf({ place, content, labelled }) {
    if (!labelled) return;
    const [left, top] = [content.rows, content.columns].map((tokens) => longest(tokens, LABEL) + 8);
    const room = (place.clientWidth || 640) / content.heads - left - 20;
    const cell = Math.max(13, Math.min(20, Math.floor(room / content.columns.length)));
    const [width, height] = [left + content.columns.length * cell, top + content.rows.length * cell];
    // as many heads in a row as fit, and equally many in each row
    let inRow = content.heads;
    while (inRow > 1 && (content.heads % inRow || inRow * (width + 14) > place.clientWidth)) inRow -= 1;
    const picture = document.createElement("canvas");
    paintTokens(contextOf(picture, width, height), content, { left, top, cell, size: LABEL });
    const style = {
      "--left": `${left}px`, "--top": `${top}px`, "--width": `${width - left}px`, "--height": `${height - top}px`,
      "--tokens": `url(${picture.toDataURL()})`, "--size": `${width}px ${height}px`,
      "--row": `${inRow * (width + 16) + 8}px`,
    };
    Object.entries(style).forEach(([name, text]) => place.style.setProperty(name, text));
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
    const width = content.columns.length;
    const [left, top] = [content.rows, content.columns].map((tokens) => longest(tokens, 13) + 10);
    const room = Math.min(window.innerWidth * 0.9 - left - 60, 760) / width;
    const cell = Math.floor(Math.max(18, Math.min(44, room, (window.innerHeight * 0.68 - top) / content.rows.length)));
    Object.assign(enlarged, { left, top, cell });
    const context = contextOf(canvas, left + width * cell + 2, top + content.rows.length * cell + 2);
    const colours = palette();
    weightsOfHead(content, layer, head).forEach((level, index) => {
      context.fillStyle = `rgb(${colours[level]})`;
      context.fillRect(left + (index % width) * cell, top + Math.floor(index / width) * cell, cell - 1, cell - 1);
    });
    paintTokens(context, content, { left, top, cell, size: 13 });
    Object.assign(context, { strokeStyle: colour("bad"), lineWidth: 2 });
    context.strokeRect(left + enlarged.column * cell, top + enlarged.row * cell, cell - 1, cell - 1);
  }

  function point(row, column) {
    const { content } = enlarged;
    if (row < 0 || column < 0 || row >= content.rows.length || column >= content.columns.length) return;
    Object.assign(enlarged, { row, column });
    output.textContent = weightOf(enlarged, row, column);
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
    pictures.forEach((picture) => paint(picture, colours));
    kinds.forEach(paintTokensOf);
    if (enlarged) paintEnlarged();
  }
  section.querySelectorAll(".heads").forEach(heads);
  repaint();
  // a canvas is not drawn again when the font of its characters is loaded
  const tokens = kinds.flatMap(({ content }) => [...content.rows, ...content.columns]).join("");
  document.fonts.load(fontOf(LABEL), tokens).then(repaint, () => {});
  window.report.whenThemeChanges(repaint);
});
