// Keeps the page up to date, its times in the reader's zone, and its keys. Everything else works without this file.
"use strict";

(() => {
  const main = document.getElementById("main");
  const state = document.getElementById("state");
  const say = (text) => { if (state) state.textContent = text; };

  const sameDay = (a, b) => a.toDateString() === b.toDateString();
  const localise = (root) => {
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      const clock = { hour: "2-digit", minute: "2-digit" };
      time.title = time.dateTime;
      time.textContent = sameDay(at, new Date())
        ? at.toLocaleTimeString([], clock)
        : at.toLocaleString([], { month: "short", day: "numeric", ...clock });
    }
  };

  // What the reader holds stays: the focus, what was typed, what is unfolded, how far a log was scrolled.
  const HELD = "a, button, input, summary, pre", TYPED = "input:not([type=hidden])";
  const replace = (markup) => {
    const focused = main.contains(document.activeElement) ? document.activeElement : null;
    const places = [...main.querySelectorAll(HELD)];
    const typed = [...main.querySelectorAll(TYPED)].map((one) => one.value);
    const place = places.indexOf(focused);
    const open = [...main.querySelectorAll("details[open]")].map((one) => one.id);
    const logs = [...main.querySelectorAll("pre")].map((one) => [one.scrollTop, one.scrollTop + one.clientHeight >= one.scrollHeight - 4]);
    const top = window.scrollY;
    const parsed = new DOMParser().parseFromString(markup, "text/html");
    main.replaceChildren(...parsed.body.childNodes);
    localise(main);
    for (const id of open) document.getElementById(id)?.setAttribute("open", "");
    main.querySelectorAll("pre").forEach((one, number) => {
      const [at, atEnd] = logs[number] ?? [0, true];
      one.scrollTop = atEnd ? one.scrollHeight : at;
    });
    main.querySelectorAll(TYPED).forEach((one, number) => { one.value = typed[number] || one.value; });
    if (place >= 0) main.querySelectorAll(HELD)[place]?.focus({ preventScroll: true });
    window.scrollTo({ top });
  };

  // A click on what is replaced between press and release is lost, so a view that comes in between waits.
  let pressed = false, late = null;
  const show = (markup) => { if (pressed) late = markup; else replace(markup); };
  const release = () => setTimeout(() => {
    pressed = false;
    if (late !== null) replace(late);
    late = null;
  });
  document.addEventListener("pointerdown", (event) => { pressed = event.button === 0; });  // a menu hides the end of others
  for (const end of ["pointerup", "pointercancel", "contextmenu"]) document.addEventListener(end, release);
  window.addEventListener("blur", release);

  const follow = () => {
    const address = new URL(location.href);
    address.searchParams.set("live", "1");
    address.hash = "";
    const source = new EventSource(address);
    source.addEventListener("open", () => say("live"));
    source.addEventListener("view", (event) => show(JSON.parse(event.data)));
    source.addEventListener("over", () => { source.close(); location.reload(); });
    source.addEventListener("error", () => {
      say(source.readyState === EventSource.CLOSED ? "not live: reload the page" : "connecting again …");
    });
    window.addEventListener("pagehide", () => source.close());
  };

  // Single keys get in the way of people who dictate, so they can be turned off (WCAG 2.1.4).
  const keys = document.getElementById("keys"), turn = keys?.querySelector("button");
  const areOff = () => localStorage.getItem("keys") === "off";
  const offer = () => { turn.textContent = areOff() ? "Turn on" : "Turn off"; };
  if (keys) {
    keys.hidden = false;
    offer();
    turn.addEventListener("click", () => { localStorage.setItem("keys", areOff() ? "on" : "off"); offer(); });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || areOff()) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const target = {
      "/": () => document.getElementById("find")?.focus(),
      n: () => main.querySelector("a[rel=next]")?.click(),
      p: () => main.querySelector("a[rel=prev]")?.click(),
    }[event.key] ?? (/^[0-9]$/.test(event.key) ? () => document.querySelectorAll("nav a")[(Number(event.key) + 9) % 10]?.click() : null);
    if (target) { event.preventDefault(); target(); }
  });

  const zone = document.getElementById("zone");
  if (zone) zone.textContent = `of ${Intl.DateTimeFormat().resolvedOptions().timeZone}`;
  localise(document);
  for (const log of main.querySelectorAll("pre[data-end]")) log.scrollTop = log.scrollHeight;
  if (window.EventSource) follow();
})();
