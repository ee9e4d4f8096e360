// Parts of a page are fetched anew when the server says that something changed; everything works without this file.
"use strict";
(() => {
  const wire = document.getElementById("wire");
  // What the page shows may be over by now: it looks like that.
  const tell = (text) => { wire.textContent = text; document.body.classList.toggle("stale", text !== ""); };
  let stream = null, isFetching = false, isDue = false;

  function isInUse(part) {
    const at = document.activeElement, chosen = document.getSelection();
    const types = at && part.contains(at) && at.matches("input, textarea, select");
    return types || (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
  }

  function names(main) {
    return [...main.querySelectorAll("[data-part]")].map((part) => part.id).join();
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
      const main = document.getElementById("main"), other = next.getElementById("main");
      if (answer.ok && names(main) !== names(other) && !isInUse(main) && !main.querySelector("[data-talk]")) {
        main.replaceChildren(...other.childNodes);  // another page: the turn is over, the cluster has stopped
      }
      for (const part of document.querySelectorAll("[data-part]")) {
        const made = next.getElementById(part.id);
        if (made) replaced(part, made);
      }
      tell(answer.ok ? "" : "this page cannot be read now; it shows what was last known");
    } catch { tell("the console does not answer"); }
    isFetching = false;
    if (isDue) { isDue = false; setTimeout(refresh, 250); }
  }

  function listen() {
    const from = document.body.dataset.live;
    if (!from || stream) return;
    stream = new EventSource(from);
    stream.addEventListener("changed", refresh);
    stream.onopen = () => { if (wire.textContent) refresh(); };
    stream.onerror = () => { tell("not connected; trying again"); };
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

  // Frames of the bus: the newest on top, as many as a page keeps; what was lost on the way is counted.
  const frames = document.querySelector("[data-frames]");
  if (frames) {
    const rows = frames.tBodies[0], account = document.getElementById("account"), pause = document.getElementById("pause");
    const columns = ["sequence", "time", "kind", "type", "from", "to", "verdict", "size", "turn"];
    let isPaused = false, missed = 0;
    pause.addEventListener("click", () => { isPaused = !isPaused; pause.textContent = isPaused ? "Go on" : "Pause"; });
    const bus = new EventSource(frames.dataset.frames);
    bus.addEventListener("frames", (event) => {
      const told = JSON.parse(event.data);
      if (isPaused) missed += told.rows.length;
      else for (const one of told.rows) {
        const row = rows.insertRow(0);
        for (const name of columns) row.insertCell().textContent = one[name];
        for (const number of [0, 7]) row.cells[number].className = "n";
        if (!["delivered", "control", "queued"].includes(one.verdict)) row.cells[6].className = "loud";
      }
      while (rows.rows.length > 400) rows.deleteRow(-1);
      const passed = missed ? `, ${missed} passed while paused` : "";
      account.textContent = `${told.shown} shown, ${told.filtered} filtered out, ${told.lost} lost${passed}`;
    });
    bus.addEventListener("gone", () => { bus.close(); account.textContent = "the cluster has stopped"; });
    bus.onerror = () => { account.textContent = "not connected; trying again"; };
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { if (stream) { stream.close(); stream = null; } } else { listen(); if (document.body.dataset.live) refresh(); }
  });
  const current = document.querySelector("nav [aria-current]");
  // Not by scrollIntoView: from there on browsers would begin with the next link when somebody presses Tab.
  if (current) {
    const nav = current.parentElement;
    nav.scrollLeft = current.offsetLeft - nav.offsetLeft - (nav.clientWidth - current.offsetWidth) / 2;
  }
  listen();
})();
