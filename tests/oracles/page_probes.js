// What a page looks like to whoever measures it: an expression whose value has these functions.
({
  // Elements whose content is wider than they are, or that reach past the page; letters that stand one above the other.
  overflowing() {
    const wide = document.documentElement.clientWidth, found = [];
    const said = e => e.tagName.toLowerCase() + "." + (e.getAttribute("class") || "") + ": "
      + (e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
    const seen = e => e.checkVisibility({checkOpacity: false, checkVisibilityCSS: true});
    for (const e of document.body.querySelectorAll("*")) {
      if (!seen(e) || e.closest("svg") && e.tagName !== "svg" && e.tagName !== "text") continue;
      const box = e.getBoundingClientRect();
      if (!box.width && !box.height) continue;
      if (box.right > wide + 1 || box.left < -1) found.push("past the page, " + said(e));
      if (e.namespaceURI.endsWith("xhtml") && e.scrollWidth > e.clientWidth + 1 && e.clientWidth
          && getComputedStyle(e).display !== "inline") found.push("cut, " + said(e));
    }
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      if (!node.data.trim() || !seen(node.parentElement) || node.parentElement.closest("code, pre")) continue;
      // A word broken into three lines or more is a column of letters.
      for (const word of node.data.matchAll(/[\p{L}\p{N}.,]{2,40}/gu)) {
        const range = document.createRange();
        range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map(r => Math.round(r.top)));
        if (lines.size > 2) found.push("stacked, " + word[0]);
      }
    }
    return found;
  },

  // Pairs of words that lie on each other: leaf elements with text whose boxes share more than a hair.
  overlapping() {
    const seen = e => e.checkVisibility({checkOpacity: false, checkVisibilityCSS: true});
    const boxes = [], found = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node; (node = walker.nextNode());) {
      const parent = node.parentElement;
      if (!node.data.trim() || !seen(parent) || parent.closest("title, desc")) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const box of range.getClientRects())
        if (box.width > 1 && box.height > 1) boxes.push([box, node.data.trim().slice(0, 40), parent]);
    }
    boxes.sort((a, b) => a[0].top - b[0].top);
    for (let i = 0; i < boxes.length; i++)
      for (let j = i + 1; j < boxes.length && boxes[j][0].top < boxes[i][0].bottom - 3; j++) {
        const [a, b] = [boxes[i][0], boxes[j][0]];
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 3
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4)
          found.push(boxes[i][1] + " on " + boxes[j][1]);
      }
    return found;
  },

  // The middle of an element where a mouse would reach it; null if it is hidden, or something else lies on it.
  place(selector) {
    const found = document.querySelector(selector);
    if (!found) return null;
    found.scrollIntoView({block: "center", behavior: "instant"});
    const box = found.getBoundingClientRect(), x = box.left + box.width / 2, y = box.top + box.height / 2;
    const top = document.elementFromPoint(x, y);
    return top && (found.contains(top) || top.contains(found)) ? [x, y] : null;
  },

  // What axe-core finds serious or critical for people who cannot see, point or tell colours.
  serious() {
    return axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
      .filter(one => ["serious", "critical"].includes(one.impact))
      .flatMap(one => one.nodes.map(node => one.id + ": " + node.html.slice(0, 120))));
  },
})
