"use strict";
/* Search: the path to the node at the pointer or at the keyboard. */
window.report.whenShown("search", (section) => {
  for (const drawing of section.querySelectorAll(".beam-tree")) {
    const nodes = [...drawing.querySelectorAll(".node")];
    const edges = [...drawing.querySelectorAll(".edge")];
    const output = drawing.closest(".scroll").previousElementSibling;
    const best = nodes.findLastIndex((node) => node.classList.contains("chosen"));

    function show(number) {
      [...nodes, ...edges].forEach((one) => one.classList.remove("path"));
      for (let at = number; at >= 0; at = Number(nodes[at].dataset.parent)) {
        nodes[at].classList.add("path");
        edges[at].classList.add("path");
      }
      output.textContent = nodes[number].getAttribute("aria-label");
    }
    function select(number) {
      nodes.forEach((node, index) => node.setAttribute("tabindex", index === number ? "0" : "-1"));
      nodes[number].focus();
    }

    nodes.forEach((node, number) => {
      node.setAttribute("tabindex", number === best ? "0" : "-1");
      node.addEventListener("pointerenter", () => show(number));
      node.addEventListener("click", () => select(number));
      node.addEventListener("focus", () => show(number));
      node.addEventListener("keydown", (event) => {
        const inStep = (other) => other && other.dataset.step === node.dataset.step;
        const next = {
          ArrowLeft: Number(node.dataset.parent),
          ArrowRight: nodes.findIndex((other) => Number(other.dataset.parent) === number),
          ArrowUp: inStep(nodes[number - 1]) ? number - 1 : -1,
          ArrowDown: inStep(nodes[number + 1]) ? number + 1 : -1,
          Home: nodes.findIndex((other) => other.classList.contains("chosen")),
          End: best,
        }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        if (next >= 0) select(next);
      });
    });
    show(best);
  }
});
