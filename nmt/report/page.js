"use strict";
/* Scripts of sections use the functions of this object only. */
window.report = {
  sections: new Map(),
  /* Call draw(section element, data of the section) when the section is first shown. */
  whenShown(id, draw) {
    const section = document.getElementById(id);
    if (section) draw(section, JSON.parse(section.querySelector('script[type="application/json"]').textContent).data);
  },
  /* Call repaint() whenever the theme changes between light and dark. */
  whenThemeChanges(repaint) {},
};
