"use strict";
/* The page: tabs, theme, charts, print. Scripts of sections use the functions of window.report only. */
(() => {
  const root = document.documentElement;
  const sections = [...document.querySelectorAll("main > section")];
  const contents = new Map(sections.map((section) => [
    section.id, JSON.parse(section.querySelector(':scope > script[type="application/json"]').textContent)]));
  const shown = new Set();
  const waiting = new Map();
  const repaints = [];
  const drawn = new Map();
  let printing = null;

  window.report = {
    /* Call draw(section element, data of the section) when the section is first shown. */
    whenShown(id, draw) {
      const section = document.getElementById(id);
      if (!section) return;
      if (shown.has(id)) draw(section, contents.get(id).data);
      else waiting.set(id, [...(waiting.get(id) || []), draw]);
    },
    /* Call repaint() whenever the theme changes between light and dark. */
    whenThemeChanges(repaint) { repaints.push(repaint); },
    /* Return the value of a colour of page.css, such as colour("accent"). */
    colour(name) { return getComputedStyle(root).getPropertyValue(`--${name}`).trim(); },
  };
  const { colour } = window.report;

  /* Charts. The library takes most of the time that the page needs, so that it is run after the first paint. */

  function runLibrary() {
    if (window.Plotly) return;
    const script = document.createElement("script");
    script.textContent = document.getElementById("library").textContent;
    document.head.append(script);
  }

  function themed(layout) {
    const axis = { gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line") };
    return {
      ...layout,
      xaxis: { ...axis, ...layout.xaxis },
      yaxis: { ...axis, ...layout.yaxis },
      height: layout.height || 320,
      width: printing ? Math.min(660, root.clientWidth - 40) : undefined,
      margin: { l: 8, r: 12, t: 8, b: 8, ...layout.margin },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      colorway: [1, 2, 3, 4, 5, 6].map((number) => colour(`series-${number}`)),
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("text") },
      legend: { orientation: "h", x: 0, y: 1, yanchor: "bottom", ...layout.legend },
      hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("line"), font: { color: colour("text") } },
      dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
    };
  }

  function draw(figure) {
    const section = figure.closest("main > section");
    const { data, layout } = contents.get(section.id).charts[figure.dataset.chart];
    const place = figure.querySelector(".chart");
    drawn.set(place, { data, layout });
    Plotly.react(place, data, themed(layout), { displaylogo: false, displayModeBar: false, responsive: true });
    place.dataset.drawn = "";
    place.addEventListener("keydown", showPoint);
    place.addEventListener("blur", () => Plotly.Fx.unhover(place));
  }

  /* Arrow keys show the values of one point after the other, as the pointer does. */
  function showPoint(event) {
    const place = event.currentTarget;
    if (!drawn.has(place)) return;
    const { data, layout } = drawn.get(place);
    const longest = data.reduce((found, trace, curve) => (trace.x.length > data[found].x.length ? curve : found), 0);
    const last = data[longest].x.length - 1;
    const now = Number(place.dataset.point ?? -1);
    const next = {
      ArrowRight: Math.min(last, now + 1), ArrowLeft: Math.max(0, now - 1), Home: 0, End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    place.dataset.point = next;
    const point = {
      "x unified": { xval: data[longest].x[next] },
      "y unified": { yval: next },
    }[layout.hovermode] || [{ curveNumber: longest, pointNumber: next }];
    Plotly.Fx.hover(place, point, "xy");
  }

  function drawMissing() {
    for (const figure of document.querySelectorAll("figure[data-chart]")) {
      if (!("drawn" in figure.querySelector(".chart").dataset)) draw(figure);
    }
  }

  function repaint() {
    for (const [place, { data, layout }] of drawn) Plotly.react(place, data, themed(layout));
    repaints.forEach((one) => one());
  }

  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        near.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "300px" });
  requestAnimationFrame(() => setTimeout(() => {
    runLibrary();
    document.querySelectorAll("figure[data-chart]").forEach((figure) => near.observe(figure));
  }));

  /* Tabs: links without this script */

  const list = document.getElementById("tabs");
  const tabs = [...list.querySelectorAll("a")];
  list.setAttribute("role", "tablist");
  tabs.forEach((tab, index) => {
    tab.setAttribute("role", "tab");
    tab.id = `tab-${sections[index].id}`;
    tab.setAttribute("aria-controls", sections[index].id);
    sections[index].setAttribute("role", "tabpanel");
    sections[index].setAttribute("aria-labelledby", tab.id);
    sections[index].tabIndex = 0;
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      select(index, true);
    });
  });
  list.addEventListener("keydown", (event) => {
    const now = tabs.indexOf(document.activeElement);
    const last = tabs.length - 1;
    const next = {
      ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now === 0 ? last : now - 1, Home: 0, End: last,
      " ": now, Enter: now,
    }[event.key];
    if (next === undefined || now < 0) return;
    event.preventDefault();
    select(next, true);
    tabs[next].focus();
  });

  function start(section) {
    if (shown.has(section.id)) return;
    shown.add(section.id);
    (waiting.get(section.id) || []).forEach((one) => one(section, contents.get(section.id).data));
  }

  function select(index, remember) {
    sections.forEach((section, position) => {
      section.hidden = position !== index;
      tabs[position].setAttribute("aria-selected", String(position === index));
      tabs[position].tabIndex = position === index ? 0 : -1;
    });
    // A tab that is scrolled into view becomes the place where the Tab key starts: not when the page is opened.
    if (remember || location.hash) tabs[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    start(sections[index]);
    if (remember) history.replaceState(null, "", `#${sections[index].id}`);
  }

  function selectFromAddress() {
    const target = document.getElementById(location.hash.slice(1));
    const index = target ? sections.findIndex((section) => section.contains(target)) : 0;
    select(Math.max(0, index), false);
    if (target && index >= 0 && target !== sections[index]) target.scrollIntoView();
  }
  window.addEventListener("hashchange", selectFromAddress);

  /* Theme: that of the system, or the other one after a click */

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  function setTheme(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    button.setAttribute("aria-pressed", String(isDark()));
    repaint();
  }
  button.hidden = false;
  button.addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
  system.addEventListener("change", () => setTheme(root.dataset.theme));

  /* Print: all sections, in light colours, without what only repeats a drawing */

  window.addEventListener("beforeprint", () => {
    const closed = [...document.querySelectorAll("main details:not(.screen-only, [open])")];
    printing = { theme: root.dataset.theme, tab: sections.findIndex((section) => !section.hidden), closed };
    closed.forEach((details) => { details.open = true; });
    root.classList.add("printing");
    sections.forEach((section) => { section.hidden = false; });
    sections.forEach(start);
    runLibrary();
    setTheme("light");
    drawMissing();
  });
  window.addEventListener("afterprint", () => {
    const { theme, tab, closed } = printing;
    printing = null;
    closed.forEach((details) => { details.open = false; });
    root.classList.remove("printing");
    setTheme(theme);
    select(tab, false);
  });

  setTheme();
  selectFromAddress();
})();
