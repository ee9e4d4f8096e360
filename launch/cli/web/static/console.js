// Parts of a page are fetched anew when the server says that something changed; everything works without this file.
"use strict";
(() => {
  const wire = document.getElementById("wire");
  let stream = null, isFetching = false, isDue = false;

  function isInUse(part) {
    const at = document.activeElement, chosen = document.getSelection();
    const types = at && part.contains(at) && at.matches("input, textarea, select");
    return types || (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
  }

  function replaced(part, next) {
    if (part.innerHTML === next.innerHTML || isInUse(part)) return;
    const opened = new Set([...part.querySelectorAll("details[open][id]")].map((one) => one.id));
    const focused = document.activeElement && part.contains(document.activeElement) && document.activeElement.id;
    part.replaceChildren(...next.childNodes);
    for (const one of part.querySelectorAll("details[id]")) one.open = one.open || opened.has(one.id);
    if (focused && document.getElementById(focused)) document.getElementById(focused).focus();
  }

  async function refresh() {
    if (isFetching) { isDue = true; return; }
    isFetching = true;
    try {
      const answer = await fetch(location.href, { headers: { "x-refresh": "1" } });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of document.querySelectorAll("[data-part]")) {
        const other = next.getElementById(part.id);
        if (other) replaced(part, other);
      }
      wire.textContent = answer.ok ? "" : "this page cannot be read now; it shows what was last known";
    } catch { wire.textContent = "the console does not answer"; }
    isFetching = false;
    if (isDue) { isDue = false; setTimeout(refresh, 250); }
  }

  function listen() {
    const from = document.body.dataset.live;
    if (!from || stream) return;
    stream = new EventSource(from);
    stream.addEventListener("changed", refresh);
    stream.onopen = () => { if (wire.textContent) refresh(); };
    stream.onerror = () => { wire.textContent = "not connected; trying again"; };
  }

  // The answer while it is written; what counts is the page as it is made anew at the end.
  for (const box of document.querySelectorAll("[data-talk]")) {
    const answer = box.querySelector(".answer"), notice = box.querySelector(".notice");
    const talk = new EventSource(box.dataset.talk);
    talk.addEventListener("text", (event) => { notice.textContent = ""; answer.append(JSON.parse(event.data).text); });
    talk.addEventListener("anew", (event) => {
      const said = JSON.parse(event.data);
      answer.textContent = said.text; notice.textContent = said.notice;
    });
    talk.addEventListener("over", async (event) => {
      talk.close();
      notice.textContent = JSON.parse(event.data).fault;
      await refresh();
      if (!notice.textContent) box.remove();
    });
    talk.onerror = () => { if (talk.readyState === EventSource.CLOSED) { box.remove(); refresh(); } };
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { if (stream) { stream.close(); stream = null; } } else { listen(); if (document.body.dataset.live) refresh(); }
  });
  listen();
})();
