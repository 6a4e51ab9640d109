// Keeps the page current: asks for the part below #live again, replaces the sections that have
// changed, shows times in the zone of the browser, and says when nothing can be asked.
"use strict";
(() => {
  const EVERY_MS = 5000, EVERY_MS_MAX = 30000, WAIT_MS = 20000;
  const $ = (id) => document.getElementById(id);
  const root = document.body.dataset.root || "";

  // ------------------------------------------------------------ times

  const two = (n) => String(n).padStart(2, "0");
  const clock = (d) => `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
  const day = (d) => `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;

  function since(ms) {
    const s = Math.max(0, Math.round(ms / 1000));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min`;
    if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
  }

  function showTimes(within) {
    const now = new Date();
    for (const time of within.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (Number.isNaN(at.getTime())) continue;
      const here = day(at) === day(now) ? clock(at) : `${day(at)} ${clock(at)}`;
      const words = time.dataset.shows === "since" ? since(now - at) : here;
      if (time.textContent !== words) time.textContent = words;
    }
  }

  // ------------------------------------------------------------ what has changed

  const placeOf = (live, node) => {
    const path = [];
    for (let at = node; at && at !== live; at = at.parentElement) {
      if (at.id) return { id: at.id, path };
      path.unshift([...at.parentElement.children].indexOf(at));
    }
    return null;
  };

  const foundAt = (place) => {
    let at = $(place.id);
    for (const index of place.path) at = at && at.children[index];
    return at;
  };

  function replace(live, text) {
    const next = document.createElement("div");
    next.innerHTML = text;
    showTimes(next);
    const focused = live.contains(document.activeElement) ? document.activeElement : null;
    const place = focused && placeOf(live, focused);
    const scrolled = [...live.querySelectorAll(".wide[id], .picture")]
      .map((one, at) => [one.id, at, one.scrollLeft]).filter((one) => one[2]);
    const isSame = live.children.length === next.children.length &&
      [...next.children].every((one, at) => one.id && one.id === live.children[at].id);
    if (isSame) {
      [...next.children].forEach((one, at) => {
        if (one.outerHTML !== live.children[at].outerHTML) live.children[at].replaceWith(one);
      });
    } else {
      live.replaceChildren(...next.childNodes);
    }
    const wide = [...live.querySelectorAll(".wide[id], .picture")];
    for (const [id, at, left] of scrolled) {
      const one = id ? $(id) : wide[at];
      if (one) one.scrollLeft = left;
    }
    const again = place && foundAt(place);
    if (again && document.activeElement !== again) again.focus({ preventScroll: true });
  }

  // ------------------------------------------------------------ asking

  let etag = null, failures = 0, timer = 0, isAsking = false, goodAt = Date.now();

  function pulse(words, kind) {
    const one = $("pulse");
    if (!one) return;
    if (one.textContent !== words) one.textContent = words;
    one.dataset.kind = kind;
  }

  function readAt(ms) {
    const one = $("read-at");
    if (!one || !ms) return;
    one.dateTime = new Date(Number(ms)).toISOString();
    one.title = one.dateTime.slice(0, 19).replace("T", " ") + " UTC";
    showTimes(one.parentElement);
  }

  function lost(...nodes) {
    const one = $("lost");
    one.replaceChildren(...nodes);
    one.hidden = nodes.length === 0;
    document.body.classList.toggle("old", nodes.length > 0);
  }

  function link(words, href) {
    const one = document.createElement("a");
    one.textContent = words;
    one.href = href;
    one.dataset.airflow = "";
    return one;
  }

  async function ask() {
    const live = $("live");
    if (!live || isAsking || document.hidden) return;
    isAsking = true;
    const stop = new AbortController();
    const late = setTimeout(() => stop.abort(), WAIT_MS);
    try {
      const url = new URL(location.href);
      url.searchParams.set("part", "1");
      const headers = etag ? { "If-None-Match": etag } : {};
      const answer = await fetch(url, { headers, signal: stop.signal, redirect: "manual" });
      if (answer.status === 401 || answer.status === 403 || answer.type === "opaqueredirect") {
        failures += 1;
        lost("Your login has ended. What is shown is of " + clock(new Date(goodAt)) + ". ",
          link("Log in again", root.replace(/\/medusa$/, "") + "/"));
        pulse("logged out", "bad");
        return;
      }
      if (answer.status !== 304) {
        if (!answer.ok) throw new Error(`it answered ${answer.status}`);
        const version = answer.headers.get("X-Medusa-Version");
        if (version && !document.querySelector(`link[href$="?${version}"]`)) {
          location.reload(); // the server was upgraded: its parts need its own style and script
          return;
        }
        etag = answer.headers.get("ETag");
        replace(live, await answer.text());
      }
      failures = 0;
      goodAt = Date.now();
      lost();
      readAt(answer.headers.get("X-Medusa-Read-At"));
      pulse("live", "good");
    } catch (error) {
      failures += 1;
      const why = error.name === "AbortError" ? `no answer within ${WAIT_MS / 1000} s` :
        error.message.startsWith("it answered") ? error.message : "it cannot be reached";
      lost(`Airflow's server does not serve this page now (${why}). What is shown is of ` +
        clock(new Date(goodAt)) + "; it is asked again until it answers.");
      pulse("not live", "bad");
    } finally {
      clearTimeout(late);
      isAsking = false;
      plan();
    }
  }

  function plan() {
    clearTimeout(timer);
    if (document.hidden) return;
    const ms = Math.min(EVERY_MS * 2 ** Math.min(failures, 3), EVERY_MS_MAX);
    timer = setTimeout(ask, ms * (0.9 + Math.random() / 5));
  }

  // ------------------------------------------------------------ links and commands

  // In Airflow's frame a link to Airflow's own pages belongs to the window around it.
  function leave(event) {
    const one = event.target.closest && event.target.closest("a[data-airflow]");
    if (!one || window.parent === window || event.ctrlKey || event.metaKey) return;
    try {
      const outside = window.parent.document.createElement("a");
      outside.href = one.href;
      window.parent.document.body.append(outside);
      outside.click();
      outside.remove();
      event.preventDefault();
    } catch { /* framed by another site: the link does what links do */ }
  }

  async function copy(event) {
    const one = event.target.closest && event.target.closest("code.copy");
    if (!one || !navigator.clipboard || String(getSelection())) return;
    try {
      await navigator.clipboard.writeText(one.textContent);
      one.classList.add("copied");
      setTimeout(() => one.classList.remove("copied"), 1200);
    } catch { /* not allowed: it can be selected */ }
  }

  // Airflow's own choice of light or dark, where it is framed.
  function takeTheme() {
    let chosen = null;
    try {
      if (window.parent !== window) chosen = window.parent.document.documentElement.dataset.theme ||
        localStorage.getItem("theme");
    } catch { /* framed by another site */ }
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  }

  takeTheme();
  showTimes(document);
  document.addEventListener("click", (event) => { leave(event); copy(event); });
  setInterval(() => { if (!document.hidden) showTimes(document); }, 1000);
  document.addEventListener("visibilitychange", () => document.hidden ? clearTimeout(timer) : ask());
  window.addEventListener("online", ask);
  if ($("live")) { pulse("live", "good"); plan(); }
})();
