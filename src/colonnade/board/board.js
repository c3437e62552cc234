// Live figures: elements with data-live take what the board sends; everything else works without this.
"use strict";
(() => {
  const show = facts => {
    for (const [name, value] of Object.entries(facts))
      for (const place of document.querySelectorAll(`[data-live="${CSS.escape(name)}"]`))
        if (place.textContent !== value) place.textContent = value;
  };
  const run = document.querySelector("[data-events]");
  if (run) {
    const source = new EventSource(run.dataset.events);
    source.onmessage = event => show(JSON.parse(event.data));
    // Whoever is typing loads the page again by hand.
    const typed = () => [...document.querySelectorAll("input:not([type=hidden])")].some(one => one.value !== one.defaultValue);
    source.addEventListener("ended", () => {
      source.close();
      if (!typed()) location.reload();
      else for (const place of run.querySelectorAll("[data-live]")) place.textContent = "ended: load this page again";
    });
  }
  const changed = document.querySelector("[data-changed]");
  if (changed) {
    let first;
    const source = new EventSource("/events");
    source.onmessage = event => {
      first ??= event.data;
      show(JSON.parse(event.data));
      if (event.data !== first) changed.hidden = false;
    };
  }
})();
