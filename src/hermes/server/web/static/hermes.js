// Keyboard shortcuts and small conveniences; every page works without this file.
"use strict";
(() => {
  const typing = (at) => at instanceof Element && at.matches("input:not([type=checkbox]), textarea, select");
  const items = () => [...document.querySelectorAll("[data-item]")];
  const current = () => document.activeElement?.closest("[data-item]");
  let afterG = 0;

  function step(by) {
    const all = items();
    const at = all.indexOf(current());
    const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? 0 : at + by))];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  function press(selector, on = current()) {
    on?.querySelector(selector)?.click();
  }

  function write(field) {
    field?.focus();
    field?.setSelectionRange(field.value.length, field.value.length);
  }

  function edit(on = current()) {
    const place = on?.querySelector("details[data-edit]");
    if (!place) return;
    place.open = true;
    write(place.querySelector("textarea"));
  }

  const keys = {
    "?": () => document.getElementById("shortcuts")?.showModal(),
    "/": () => document.querySelector("[data-search]")?.focus(),
    j: () => step(1),
    k: () => step(-1),
    e: () => edit(),
    p: () => press("[data-pin]"),
    x: () => press("input[type=checkbox]"),
    a: () => press("[data-accept]"),
    r: () => press("[data-reject]"),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && typing(event.target)) {
      const around = event.target.closest("details[open]");
      if (around) around.open = false;
      (event.target.closest("[data-item]") || document.getElementById("main")).focus();
      return;
    }
    if (typing(event.target) || document.querySelector("dialog[open]") || !("signedIn" in document.body.dataset)) return;
    if (afterG && Date.now() - afterG < 1500) {
      afterG = 0;
      document.querySelector(`nav a[data-key="${CSS.escape(event.key)}"]`)?.click();
    } else if (event.key === "g") {
      afterG = Date.now();
    } else if (Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open)?.showModal();
    for (const menu of document.querySelectorAll("details.more[open], details.narrow[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  document.addEventListener("change", (event) => {
    const changed = event.target;
    if (changed.matches("[data-change]")) changed.form.requestSubmit();
    if (changed.matches("[data-all]")) {
      for (const box of document.querySelectorAll(`input[name="${changed.dataset.all}"]`)) box.checked = changed.checked;
    }
  });

  document.addEventListener("submit", (event) => {
    const question = event.target.dataset.confirm;
    if (question && !window.confirm(question)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    }
  }, true);

  document.addEventListener("toggle", (event) => {
    const inside = event.target.contains(document.activeElement) && !document.activeElement.matches("summary");
    if (event.target.open && !inside && event.target.matches("details.edit, details.add")) write(event.target.querySelector("textarea"));
  }, true);

  // After a decision the page is drawn anew: the keyboard goes on where it was.
  let place = -1, page = "";
  document.addEventListener("htmx:beforeSwap", () => { place = items().indexOf(current()); page = location.pathname; });
  document.addEventListener("htmx:afterSettle", () => {
    const all = items();
    if (place >= 0 && all.length && page === location.pathname) all[Math.min(place, all.length - 1)].focus({ preventScroll: true });
    place = -1;
  });

  // One connection for the page that is shown; none while nobody looks at it.
  let live = null;
  function connect() {
    live?.close();
    live = null;
    const place = document.querySelector("[data-live]");
    if (!place || document.hidden) return;
    live = new EventSource(place.dataset.live);
    const state = place.querySelector("[data-live-state]");
    live.onopen = () => { place.classList.add("on"); state.textContent = "Live"; };
    live.onerror = () => { if (live?.readyState === EventSource.CLOSED) { place.classList.remove("on"); state.textContent = "Not live"; } };
    live.addEventListener("changed", () => htmx.trigger(document.getElementById(place.dataset.refresh), "refresh"));
  }
  document.addEventListener("visibilitychange", connect);
  document.addEventListener("htmx:historyRestore", connect);
  document.addEventListener("htmx:afterSettle", (event) => { if (event.target === document.body) connect(); });

  const ready = () => { document.querySelector("form[data-submit]")?.requestSubmit(); connect(); };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", ready);
  else ready();
})();
