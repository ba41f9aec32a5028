"use strict";
const ANSWERS = { ArrowLeft: "left", ArrowRight: "right", e: "equal", b: "both_unacceptable", s: "skip" };
const WORDS = { left: "left is better", right: "right is better", equal: "equally good",
                both_unacceptable: "both unacceptable", skip: "skipped" };
const REST = 400; // milliseconds after a new pair in which an answer is the echo of the last one, such as a double click
const SVG = "http://www.w3.org/2000/svg";

const $ = selector => document.querySelector(selector);
let rater = sessionStorage.getItem("rater") || document.body.dataset.rater;
let state = null, players = [], busy = false, shownAt = 0;

// ---- talking to the server

async function send(address, fields) { // the next state; null if there is none, with the reason on the page
  const failed = fields ? "Not saved" : "Not loaded";
  busy = true;
  try {
    const post = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(fields) };
    const response = await fetch(address, fields && post);
    const answer = await response.json().catch(() => ({ error: `the server answered with status ${response.status}` }));
    if (!response.ok) trouble(`${failed}: ${answer.error}.`);
    if (response.status === 409) return await refresh();
    if (!response.ok) return null;
    trouble("");
    return answer;
  } catch {
    return trouble(`${failed}: the server does not answer. Start the command again and open the new address; earlier labels are on disk.`);
  } finally { busy = false; }
}
async function refresh() {
  const response = await fetch("state?rater=" + encodeURIComponent(rater));
  return response.ok ? response.json() : null;
}
function trouble(text) { $("#trouble").textContent = text; $("#trouble").hidden = !text; return null; }

function say(text) { $("#said").textContent = $("#trouble").hidden ? text : ""; }

async function start() {
  if (!rater) return $("#ask").showModal();
  show(await send("state?rater=" + encodeURIComponent(rater)));
}
async function answer(given) {
  if (busy || !state?.pair || performance.now() - shownAt < REST) return;
  const next = await send("answer", { rater, pair: state.pair.id, answer: given });
  say(`Saved: ${WORDS[given]}.`);
  show(next);
}
async function undo() {
  if (busy || !state?.last) return;
  const taken = state.last.answer, next = await send("undo", { rater, label: state.last.id });
  say(`Taken back: ${WORDS[taken]}.`);
  show(next);
}

// ---- the page

function show(next) {
  if (!next) return;
  const same = state?.pair && next.pair && state.pair.id === next.pair.id;
  state = next;
  const left = Math.max(0, state.pairs - state.answered);
  $("#bar").max = state.pairs; $("#bar").value = state.answered;
  $("#count").textContent = `${state.answered} of ${state.pairs} labelled, ${left} left` + (state.skipped ? `, ${state.skipped} skipped` : "");
  $("#name").textContent = `Rater: ${state.rater}`;
  $("#undo").disabled = !state.last;
  for (const button of document.querySelectorAll("[data-answer]")) button.disabled = !state.pair;
  $("#pair").hidden = !state.pair;
  $("#finished").hidden = Boolean(state.pair);
  $("#finished").textContent = state.note ? `No other pair can be shown: ${state.note}.`
    : "All pairs are labelled. Stop the command with Ctrl-C; it prints what to run next.";
  if (same) return;
  for (const player of players) player.pause();
  players = [];
  if (!state.pair) return;
  for (const side of ["left", "right"]) episode(side, state.pair);
  shownAt = performance.now();
  document.body.dataset.pair = state.pair.id;
}

function make(tag, text, css) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (css) element.className = css;
  return element;
}

async function episode(side, pair) {
  const section = $("#episode").content.cloneNode(true).querySelector("section");
  section.querySelector("h2").textContent = side === "left" ? "Left" : "Right";
  for (const [name, fact] of pair[side].facts) {
    const entry = make("div", "");
    entry.append(make("dt", name), make("dd", fact));
    section.querySelector(".facts").append(entry);
  }
  $("#" + side).replaceChildren(section);
  let film = null;
  try {
    let response;
    do response = await fetch("film/" + pair[side].row);
    while (response.status === 202 && section.isConnected); // it is being made
    if (response.ok) film = await response.json();
  } catch { /* the page says below that there is no film */ }
  if (!section.isConnected) return; // another pair is shown
  section.querySelector(".wait").remove();
  const note = film ? film.note : "The film could not be made; the numbers are those of the table.";
  section.querySelector(".why").textContent = note;
  section.querySelector(".why").hidden = !note;
  if (film?.player) play(section, film);
}

function play(section, film) {
  const { player } = film, canvas = section.querySelector("canvas");
  if (player.film) {
    section.classList.add("filmed");
    section.querySelector(".film").hidden = false;
    canvas.width = player.film.width; canvas.height = player.film.height;
  }
  section.querySelector(".axis").before(...film.tracks.map(track => drawing(track, player.length)));
  section.querySelector(".end").textContent = `step ${player.length}`;
  section.querySelector(".scrub").max = player.length;
  const jumps = section.querySelector(".jumps");
  for (const { step, text } of film.jumps) {
    const jump = make("button", text);
    jump.type = "button"; jump.dataset.step = step;
    jumps.append(jump);
  }
  jumps.hidden = !film.jumps.length;
  section.querySelector(".stage").hidden = false;
  const own = new Player(section, player, $(".speed"));
  own.go(0); // both episodes at their start
  own.changed = label;
  own.scrub.addEventListener("pointerup", () => own.scrub.blur()); // so that the arrow keys answer afterwards
  players.push(own);
}

function drawing(track, length) { // as in watch.html
  const shown = make("div", "", "track"), title = make("div", "", "title"), area = make("div", "", "area");
  const now = make("output", "", "now"), svg = document.createElementNS(SVG, "svg");
  now.dataset.of = track.name;
  title.append(make("span", track.title), now);
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${length} 100`, preserveAspectRatio: "none", "aria-hidden": "true" }))
    svg.setAttribute(name, value);
  for (const mark of track.marks.filter(mark => mark.path)) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", mark.css_class); path.setAttribute("d", mark.path);
    svg.append(path);
  }
  area.append(svg, make("span", track.high, "bound high"), make("span", track.low, "bound low"), make("span", "", "cursor"));
  shown.append(title, area);
  return shown;
}

function label() { $("#both").textContent = players.some(player => player.timer) ? "Pause both" : "Play both"; }
function both() {
  if (players.some(player => player.timer)) return players.forEach(player => player.pause());
  const unfinished = players.filter(player => player.position < player.data.length);
  for (const player of unfinished.length ? unfinished : players) player.play();
}
function step(by) { for (const player of players) { player.pause(); player.go(player.position + by); } }

for (const button of document.querySelectorAll("[data-answer]")) button.onclick = () => answer(button.dataset.answer);
$("#undo").onclick = undo;
$("#both").onclick = both;
$("#name").onclick = () => { $("#rater").value = rater; $("#ask").showModal(); };
$("#ask form").onsubmit = event => {
  event.preventDefault();
  rater = $("#rater").value.trim();
  if (!rater) return;
  sessionStorage.setItem("rater", rater);
  $("#ask").close();
  start();
};
const speed = $(".speed"); // after a choice with the mouse the arrow keys answer; with the keyboard they go on choosing
speed.addEventListener("pointerdown", () => { speed.dataset.pointed = ""; });
speed.addEventListener("keydown", () => { delete speed.dataset.pointed; });
speed.addEventListener("change", () => { if ("pointed" in speed.dataset) speed.blur(); });
for (const button of document.querySelectorAll("button")) // so that space plays afterwards
  button.addEventListener("click", event => { if (event.detail) button.blur(); });
addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches("input, select")) return;
  if ($("#ask").open) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (ANSWERS[key]) answer(ANSWERS[key]);
  else if (key === "u") undo();
  else if (key === " " && !event.target.matches("button")) both();
  else if (key === "," || key === ".") step(key === "," ? -1 : 1);
  else return;
  event.preventDefault();
});
start();
